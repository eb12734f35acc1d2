package perfbuf

import (
	"context"
	"iter"
	"os"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/wake"
	"github.com/ringfold/ringfold/internal/walk"
)

// waiter is a Source that can be waited for.
type waiter interface {
	Source
	Wait(context.Context) error
	interrupt() // makes a Wait look at its context
}

// forEach is [Fold] without anything to carry along.
func forEach(src Source, f func(Event) error) error {
	return unlessStopped(forEachUntil(context.Background(), src, f))
}

// forEachUntil is forEach that also ends with context.Cause(ctx), after the event that is with f, when ctx is done.
// If f has returned ErrStop, it returns errStopped, which no context has for a cause.
func forEachUntil(ctx context.Context, src Source, f func(Event) error) error {
	batch, err := src.begin()
	if err != nil {
		return err
	}
	defer batch.pass.End()
	return each(ctx, &batch.pass, f)
}

func each(ctx context.Context, p *walk.Pass, f func(Event) error) error {
	done := ctx.Done()
	for b := &p.Batch; p.Next(); {
		for i, ev := range b.List {
			if i > 0 && p.Halt.Load() { // next has looked, and counts what comes alone as delivered
				return os.ErrClosed
			}
			b.Taken = i + 1
			if err := f(Event{ev}); err != nil {
				return stopped(err)
			}
			if done != nil && isDone(done) {
				return context.Cause(ctx)
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
				return os.ErrClosed
			}
			b.Ahead = s.Prefetch(next)
			s.Pos = next
			b.Take(word, next)
			if err := f(Event{raw.Event{View: s.View, Word: word}}); err != nil {
				return stopped(err)
			}
			if done != nil && isDone(done) {
				return context.Cause(ctx)
			}
		}
	}
	return p.Err
}

// isDone takes less time than a context's Err.
func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// stopped is err, but errStopped for ErrStop.
func stopped(err error) error {
	if err == ErrStop {
		return errStopped
	}
	return err
}

// unlessStopped is err, but nil for errStopped.
func unlessStopped(err error) error {
	if err == errStopped {
		return nil
	}
	return err
}

func forEachBatch(src Source, f func(*Batch) error) error {
	return unlessStopped(forEachBatchUntil(context.Background(), src, f))
}

// forEachBatchUntil is forEachUntil by batches.
func forEachBatchUntil(ctx context.Context, src Source, f func(*Batch) error) error {
	batch, err := src.begin()
	if err != nil {
		return err
	}
	p := &batch.pass
	defer p.End()
	for p.Next() {
		if err := f(batch); err != nil {
			return stopped(err)
		}
		p.Batch.Finish()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return p.Err
}

func run(ctx context.Context, src waiter, f func(Event) error) error {
	return untilStopped(ctx, src, func() error { return forEachUntil(ctx, src, f) })
}

func runBatches(ctx context.Context, src waiter, f func(*Batch) error) error {
	return untilStopped(ctx, src, func() error { return forEachBatchUntil(ctx, src, f) })
}

// untilStopped waits for events and reads them, over and over, until that fails.
func untilStopped(ctx context.Context, src waiter, read func() error) error {
	waitFor := ctx
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, src.interrupt)
		defer stop()
		waitFor = wake.Watched{Context: ctx}
	}
	for {
		if err := src.Wait(waitFor); err != nil {
			return err
		}
		if err := read(); err != nil {
			return unlessStopped(err)
		}
	}
}

func stream(ctx context.Context, src waiter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		left := false
		err := run(ctx, src, func(ev Event) error {
			if left = !yield(ev, nil); left {
				return ErrStop
			}
			return nil
		})
		if !left && err != nil {
			yield(Event{}, err)
		}
	}
}

func records(ctx context.Context, src waiter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for ev, err := range stream(ctx, src) {
			var rec Record
			if err == nil {
				rec = ev.Record()
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}
