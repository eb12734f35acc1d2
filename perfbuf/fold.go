package perfbuf

import (
	"iter"
	"os"
)

// TryFold folds f over the events that src holds now, without waiting: it calls acc, err = f(acc,
// ev) for each, and returns the last acc. It is the primitive that all other ways of reading are
// made of.
//
// A [Ring]'s head is loaded once, at the beginning; later events wait for the next call. Its tail is
// stored once, at the end; only a drain that began with the ring nearly full gives memory back on the way.
// Over a [Reader] the fullest ring comes first, and rings are read by quanta: see [Schedule]. If f
// returns an error, panics or calls runtime.Goexit, the fold ends there, with the tail stored: the
// event that f had counts as consumed, those after it wait for the next call.
//
// TryFold returns f's error, or nil if that is [ErrStop]. It returns os.ErrClosed if the reader was
// closed, before the call or during it. It returns [ErrBusy] if it comes to a ring that is being
// read already, by another goroutine or because f calls for it; f may have been called for other
// rings by then. No lock is held while f runs, and f may close the reader. It allocates nothing.
func TryFold[A any](src Source, acc A, f func(acc A, ev Event) (A, error)) (A, error) {
	var p pass
	if err := begin(src, &p); err != nil {
		return acc, err
	}
	defer p.end()
	for {
		b := p.more()
		if b == nil {
			return acc, p.err
		}
		for i := range b.recs {
			if i > 0 && p.halt.Load() { // more has looked, and counts what comes alone as delivered
				return acc, os.ErrClosed
			}
			b.taken = i + 1
			var err error
			if acc, err = f(acc, b.event(i)); err != nil {
				if err == ErrStop {
					err = nil
				}
				return acc, err
			}
		}
	}
}

// Fold is [TryFold] for a function that cannot fail.
func Fold[A any](src Source, acc A, f func(acc A, ev Event) A) (A, error) {
	var p pass
	if err := begin(src, &p); err != nil {
		return acc, err
	}
	defer p.end()
	for {
		b := p.more()
		if b == nil {
			return acc, p.err
		}
		for i := range b.recs {
			if i > 0 && p.halt.Load() { // more has looked, and counts what comes alone as delivered
				return acc, os.ErrClosed
			}
			b.taken = i + 1
			acc = f(acc, b.event(i))
		}
	}
}

// begin is src.begin(p), spelled out by type so that p stays on the caller's stack.
func begin(src Source, p *pass) error {
	switch s := src.(type) {
	case *Ring:
		return s.begin(p)
	case *Reader:
		return s.begin(p)
	case *Ordered:
		return s.begin(p)
	default: // a type that embeds one of them
		heap := new(pass)
		err := src.begin(heap)
		*p = *heap
		return err
	}
}

// forEach is [TryFold] without anything to carry along.
func forEach(src Source, f func(Event) error) error {
	var p pass
	if err := begin(src, &p); err != nil {
		return err
	}
	defer p.end()
	return each(&p, f)
}

func each(p *pass, f func(Event) error) error {
	for {
		b := p.more()
		if b == nil {
			return p.err
		}
		for i := range b.recs {
			if i > 0 && p.halt.Load() { // more has looked, and counts what comes alone as delivered
				return os.ErrClosed
			}
			b.taken = i + 1
			if err := f(b.event(i)); err == ErrStop {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// events is forEach as an iterator.
func events(src Source) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := forEach(src, func(ev Event) error {
			if !yield(ev, nil) {
				return errBreak
			}
			return nil
		})
		if err != nil && err != errBreak {
			yield(Event{}, err)
		}
	}
}
