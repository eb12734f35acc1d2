package perfbuf

import (
	"context"
	"iter"

	"github.com/ringfold/ringfold/internal/raw"
)

// Batch is some events in a row, for functions that loop over them: one call for many events, where
// [Reader.ForEach] makes one for each. That is worth it when little is done with an event: calling a
// function through a pointer may cost more than reading the event.
//
//	err := r.ForEachBatch(func(b *perfbuf.Batch) error {
//		for ev := range b.Events() {
//			total += len(ev.Bytes())
//		}
//		return nil
//	})
//
// The events of a batch live until the function that received it returns; a Batch is used up by then too. In
// the poison build (tag perfbuf_poison) each batch holds one event.
type Batch struct {
	ring  *Ring
	of    []*Ring // if not nil: whose each is
	recs  []raw.Record
	taken int
}

// event is the i-th.
func (b *Batch) event(i int) Event {
	if b.of != nil {
		return Event{b.of[i], &b.recs[i]}
	}
	return Event{b.ring, &b.recs[i]}
}

// Events iterates over the events. The compiler makes a plain loop of it, without a call for each.
func (b *Batch) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for i := range b.recs {
			b.taken = i + 1
			if !yield(b.event(i)) {
				return
			}
		}
	}
}

// Len is how many events there are.
func (b *Batch) Len() int { return len(b.recs) }

// ForEachBatch is [Reader.ForEach] by batches. When f returns nil, the whole batch counts as consumed;
// when it returns an error, panics or exits its goroutine, the events up to the present one do, the first
// at least.
// After Close the batch may still be read to its end.
func (r *Reader) ForEachBatch(f func(*Batch) error) error { return forEachBatch(r, f) }

// ForEachBatch is [Ring.ForEach] by batches: see [Reader.ForEachBatch].
func (r *Ring) ForEachBatch(f func(*Batch) error) error { return forEachBatch(r, f) }

// ForEachBatch is [Ordered.ForEach] by batches: see [Reader.ForEachBatch].
func (s *Ordered) ForEachBatch(f func(*Batch) error) error { return forEachBatch(s, f) }

// RunBatches is [Reader.Run] by batches: see [Reader.ForEachBatch].
func (r *Reader) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return runBatches(ctx, r, f)
}

// RunBatches is [Ring.Run] by batches: see [Reader.ForEachBatch].
func (r *Ring) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return runBatches(ctx, r, f)
}

// RunBatches is [Ordered.Run] by batches: see [Reader.ForEachBatch].
func (s *Ordered) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return runBatches(ctx, s, f)
}

func forEachBatch(src Source, f func(*Batch) error) error {
	var p pass
	if err := begin(src, &p); err != nil {
		return err
	}
	defer p.end()
	for {
		b := p.more()
		if b == nil {
			return p.err
		}
		b.taken = 1 // it is with the user
		if err := f(b); err == ErrStop {
			return nil
		} else if err != nil {
			return err
		}
		b.taken = len(b.recs)
	}
}

func runBatches(ctx context.Context, src waiter, f func(*Batch) error) error {
	waitFor := ctx
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, src.interrupt)
		defer stop()
		waitFor = watched{ctx}
	}
	stopped := false
	for {
		if err := src.Wait(waitFor); err != nil {
			return err
		}
		err := forEachBatch(src, func(b *Batch) error {
			err := f(b)
			stopped = err == ErrStop
			if err == nil && ctx.Err() != nil {
				err = errDone
				b.taken = len(b.recs)
			}
			return err
		})
		if err == errDone {
			return context.Cause(ctx)
		}
		if err != nil || stopped {
			return err
		}
	}
}
