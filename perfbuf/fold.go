package perfbuf

import (
	"context"
	"os"
)

// Fold, deliver and Batch.Events write out their loops over events. With one shared loop, as a
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

// ForEach calls f for every event that is due, without waiting: one pass. See [Fold].
func (s *Stream) ForEach(f func(Event) error) error {
	return s.forEach(s.in.Begin(), f)
}

// forEach is deliver for calls that are one pass.
func (s *Stream) forEach(begun error, f func(Event) error) error {
	return unlessStopped(s.deliver(context.Background(), begun, f))
}

// ForEachPending calls f for every event that the rings hold, in order, whether due or not, and for
// every loss that the kernel knows of. On Linux 6.0 and newer these include losses that no record
// has reported yet; asking for them interrupts each CPU. Events that come later with earlier times
// are late, in exact mode too: to miss none, see [Stream.Drain]. Unordered, it is ForEach.
func (s *Stream) ForEachPending(f func(Event) error) error { return s.forEach(s.in.BeginAll(0), f) }

// Drain is ForEachPending with proof, for the end of a stream. Detach your programs and end your
// Run first. Drain waits until running programs have ended (on sleepable ones, see [PayloadTime]),
// and then calls f for all that is left. The stream then ends complete, in either mode, and no
// event is late in exact mode. Other programs may go on: their outputs meanwhile are left for the
// next pass, and come in order, too. Unordered, losses that no record has reported are not
// delivered, but are in Stats after [Reader.Close].
//
// It blocks for an RCU grace period, usually some ms, or two if programs have output something in
// the 10 µs before the call or since. Under [StampedTime] it also blocks while a sleepable program
// has a record reserved. Then it runs f for all events. Errors are those of ForEach,
// context.Cause(ctx), and the reason why it cannot wait. After an error nothing is lost, and
// ForEachPending still works.
func (s *Stream) Drain(ctx context.Context, f func(Event) error) error {
	return s.forEach(s.in.Drain(ctx), f)
}

// ForEachBatch is [Stream.ForEach] with one call for many events. If f returns nil, the whole batch
// counts as consumed, whether f iterated over it or not. If f returns an error, panics or calls
// runtime.Goexit, the events up to the current one do, at least the first. After a Close f may
// still read its batch to the end. Errors are those of ForEach.
func (s *Stream) ForEachBatch(f func(*Batch) error) error {
	return unlessStopped(s.deliverBatches(context.Background(), s.in.Begin(), f))
}
