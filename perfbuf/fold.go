package perfbuf

import (
	"os"

	"github.com/ringfold/ringfold/internal/raw"
)

// Loops over events are written out, here, in forEach and in Batch.Events: with one for all, whether by a function
// that is called for each event or by an iterator, reading took a third longer.

// Fold folds f over the events that src holds now, without waiting: it calls acc, err = f(acc,
// ev) for each, and returns the last acc. It is the primitive that all other ways of reading are
// made of.
//
// A [Ring]'s head is loaded once, at the beginning; later events wait for the next call. Its tail is
// stored once, at the end; only a drain that began with the ring nearly full gives memory back on the way.
// Over a [Reader] the fullest ring comes first, and rings are read by quanta: see [Schedule]. If f
// returns an error, panics or calls runtime.Goexit, the fold ends there, with the tail stored: the
// event that f had counts as consumed, those after it wait for the next call.
//
// Fold returns f's error, or nil if that is [ErrStop]. It returns os.ErrClosed if the reader was
// closed, before the call or during it. It returns [ErrBusy] if it comes to a ring that is being
// read already, by another goroutine or because f calls for it; f may have been called for other
// rings by then. No lock is held while f runs, and f may close the reader. It allocates nothing.
func Fold[A any](src Source, acc A, f func(acc A, ev Event) (A, error)) (A, error) {
	p, err := src.begin()
	if err != nil {
		return acc, err
	}
	defer p.end()
	for b := &p.batch; p.next(); {
		for i, ev := range b.list {
			if i > 0 && p.halt.Load() { // next has looked, and counts what comes alone as delivered
				return acc, os.ErrClosed
			}
			b.taken = i + 1
			if acc, err = f(acc, Event{ev}); err != nil {
				return acc, unlessStop(err)
			}
		}
		if b.list != nil {
			continue
		}
		for s := b.stretch; s.Pos < s.Limit; {
			word, next, ok := s.Sample()
			if !ok {
				break
			}
			if b.taken > 0 && p.halt.Load() {
				return acc, os.ErrClosed
			}
			s.Pos = next
			b.take(word, next)
			if acc, err = f(acc, Event{raw.Event{View: s.View, Word: word}}); err != nil {
				return acc, unlessStop(err)
			}
		}
	}
	return acc, p.err
}

// unlessStop is err, but nil for ErrStop.
func unlessStop(err error) error {
	if err == ErrStop {
		return nil
	}
	return err
}
