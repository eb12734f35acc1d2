package perfbuf

import "os"

// Fold, each and Batch.Events write out their loops over events. With one shared loop, as a
// function called per event or as an iterator, reading took a third longer.

// Fold reads the events that are due now, without waiting, and carries a value from one to the
// next. It calls acc, err = f(acc, ev) for each event and returns the last acc. It is one pass over
// the stream: see [Stream]. [Stream.ForEach] is Fold without the value.
//
// Fold returns f's error, or nil if that is [ErrStop]. It returns [os.ErrClosed] if the stream or a
// reader of it was closed, before the call or during it, and [ErrBusy] if the stream is being used.
// It returns [ErrDisplaced] at its end, once, when another reader has taken the map. Fold holds no
// lock while f runs, and f may close the stream or the reader. Fold does not allocate.
func Fold[A any](s *Stream, acc A, f func(acc A, ev Event) (A, error)) (A, error) {
	err := s.in.Begin()
	if err != nil {
		return acc, err
	}
	p := &s.batch.pass
	defer p.End()
	for b := &p.Batch; p.Next(); {
		for i, ev := range b.List {
			// Next has checked the first, and counts a single event as delivered
			if i > 0 && p.Halt.Load() {
				return acc, os.ErrClosed
			}
			b.Taken = i + 1
			if acc, err = f(acc, Event{ev}); err != nil {
				return acc, unlessStopped(stopped(err))
			}
		}
	}
	return acc, p.Err
}
