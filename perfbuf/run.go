package perfbuf

import (
	"context"
	"iter"
	"os"

	"github.com/ringfold/ringfold/internal/engine"
)

// deliver calls f for the events of the pass that was begun, unless that has failed. It ends when
// ctx is done, after the current event, with context.Cause(ctx). If f returned ErrStop, it returns
// errStopped, which is no context's cause.
func (s *Stream) deliver(ctx context.Context, begun error, f func(Event) error) error {
	if begun != nil {
		return begun
	}
	p := &s.batch.pass
	defer p.End()
	done := ctx.Done()
	for b := &p.Batch; p.Next(); {
		for i, ev := range b.List {
			// Next has checked the first, and counts a single event as delivered
			if i > 0 && p.Halt.Load() {
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
	}
	return p.Err
}

// isDone is faster than a context's Err.
func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// stopped returns err, or errStopped for ErrStop.
func stopped(err error) error {
	if err == ErrStop {
		return errStopped
	}
	return err
}

// unlessStopped returns err, or nil for errStopped.
func unlessStopped(err error) error {
	if err == errStopped {
		return nil
	}
	return err
}

// deliverBatches is deliver for batches.
func (s *Stream) deliverBatches(ctx context.Context, begun error, f func(*Batch) error) error {
	if begun != nil {
		return begun
	}
	p := &s.batch.pass
	defer p.End()
	for p.Next() {
		if err := f(&s.batch); err != nil {
			return stopped(err)
		}
		p.Batch.Finish()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return p.Err
}

// untilStopped waits for events and begins passes, which read ends, in a loop until either fails.
func (s *Stream) untilStopped(ctx context.Context, read func() error) error {
	waitFor := ctx
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, s.in.Interrupt) // makes a Wait look at its context
		defer stop()
		waitFor = engine.Watched{Context: ctx}
	}
	for {
		if err := s.in.WaitAndBegin(waitFor, ErrBarriers); err != nil {
			return err
		}
		if err := read(); err != nil {
			return unlessStopped(err)
		}
	}
}

// Run calls f for each event as it becomes due, and waits in between, until f returns an error, ctx
// is done or the stream or a reader of it is closed. It returns f's error (nil if that is
// [ErrStop]), context.Cause(ctx), os.ErrClosed, [ErrBusy], [ErrDisplaced] or [ErrBarriers], never
// nil otherwise.
func (s *Stream) Run(ctx context.Context, f func(Event) error) error {
	return s.untilStopped(ctx, func() error { return s.deliver(ctx, nil, f) })
}

// RunBatches is [Stream.Run] with one call for many events. [Stream.ForEachBatch] says which events
// count as consumed. After each pass, it calls f with an empty Batch whose [Batch.End] is true,
// unless the pass has ended with an error. Between batches it checks ctx; errors are those of Run.
func (s *Stream) RunBatches(ctx context.Context, f func(*Batch) error) error {
	return s.untilStopped(ctx, func() error {
		if err := s.deliverBatches(ctx, nil, f); err != nil {
			return err
		}
		return stopped(f(&endOfPass))
	})
}

// Events iterates over events as they become due, and waits in between. The error is nil with an
// event. If anything but your loop ends the iteration, its error comes alone and last. Errors are
// those of [Stream.Run].
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		left := false
		err := s.Run(ctx, func(ev Event) error {
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

// Records iterates over copies of events as they become due, and waits in between. It is the
// simplest way to read: a [Record] may be kept. Losses and corrupt memory are records too; see
// [Record.Kind]. Errors are those of [Stream.Run].
func (s *Stream) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for ev, err := range s.Events(ctx) {
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
