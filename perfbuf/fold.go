package perfbuf

import (
	"os"

	"github.com/ringfold/ringfold/internal/raw"
)

// Source is what a pass reads: one [Ring], a [Reader] (all rings), or a [Stream] (all
// rings, what is due in time order). Only they, and types that embed them, implement it.
type Source interface {
	// begin claims the source, of which the batch, and the pass that refills it, is then the caller's until the
	// pass's End. If it fails, nothing is claimed.
	begin() (*Batch, error)
}

// Loops over events are written out, here, in forEach and in Batch.Events: with one for all,
// whether by a function that is called for each event or by an iterator, reading took a third
// longer.

// Fold reads the events that src holds now, without waiting, and carries a value from one to the
// next: it calls acc, err = f(acc, ev) for each event and returns the last acc. A src is a [Ring],
// a [Reader] or a [Stream]. ForEach is Fold without the value.
//
// Fold loads the head of a Ring once, when it begins: events that come later wait for the next
// call. It stores the tail once, when it ends, which gives the memory back to the kernel. Only if
// the ring was nearly full does it store the tail on the way too. Over a Reader, the fullest ring
// comes first, and rings are read in portions: see [Schedule].
//
// If f returns an error, panics or calls runtime.Goexit, Fold ends and stores the tail. The event
// that f received counts as consumed; those after it wait for the next call.
//
// Fold returns f's error, or nil if that is [ErrStop]. It returns [os.ErrClosed] if the reader was
// closed, before the call or during it. It returns [ErrBusy] when it comes to a ring that is
// already being read: by another goroutine, or by a pass whose f called Fold. By then f may have
// received events of other rings. It returns [ErrDisplaced] at its end, once, when another reader has
// taken the map. Fold holds no lock while f runs, and f may close the reader. Fold
// does not allocate.
func Fold[A any](src Source, acc A, f func(acc A, ev Event) (A, error)) (A, error) {
	batch, err := src.begin()
	if err != nil {
		return acc, err
	}
	p := &batch.pass
	defer p.End()
	for b := &p.Batch; p.Next(); {
		for i, ev := range b.List {
			if i > 0 && p.Halt.Load() { // next has looked, and counts what comes alone as delivered
				return acc, os.ErrClosed
			}
			b.Taken = i + 1
			if acc, err = f(acc, Event{ev}); err != nil {
				return acc, unlessStopped(stopped(err))
			}
		}
		if b.List != nil {
			continue
		}
		for s := b.Stretch; s.Pos < s.Limit; {
			word, next, ok := s.View.Sample(s.Pos, s.End)
			if !ok {
				break
			}
			if b.Taken > 0 && p.Halt.Load() {
				return acc, os.ErrClosed
			}
			b.Ahead = s.Prefetch(next)
			s.Pos = next
			b.Take(word, next)
			if acc, err = f(acc, Event{raw.Event{View: s.View, Word: word}}); err != nil {
				return acc, unlessStopped(stopped(err))
			}
		}
	}
	return acc, p.Err
}
