package reader

import (
	"context"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/order"
)

// Drain begins a round that delivers what programs have output so far, and what those output that are running: all that there is, if they are
// detached. It waits until nothing older can come. What other programs output meanwhile, it leaves. The caller is the stream's user then.
func (s *Stream) Drain(ctx context.Context) error {
	if s.Order == nil {
		if _, err := s.Quiesce(ctx); err != nil {
			return err
		}
		return s.Begin()
	}
	called := s.clock.now()
	waited, err := s.quiesceAll(ctx)
	if err != nil {
		return err
	}
	if err := s.Acquire(); err != nil {
		return err
	}
	upTo := s.Order.Extent()
	if order.Covered(waited) < upTo { // programs have gone on since, or do
		s.Release()
		if waited, err = s.quiesceAll(ctx); err != nil {
			return err
		}
		if err := s.Acquire(); err != nil {
			return err
		}
	}
	for {
		again := s.Order.BeginDrain(called, waited, upTo)
		if again == 0 {
			return nil
		}
		err := s.Order.Sleep(ctx, again, s.gone)
		s.Release()
		if err == nil {
			err = s.Acquire()
		}
		if err != nil {
			return err
		}
	}
}

// quiesceAll is Quiesce, which begins so late that it covers what was output before the call, by whatever CPU's clock. A clock that stands still is
// that of a simulated kernel.
func (s *Stream) quiesceAll(ctx context.Context) (since uint64, err error) {
	const both = 2*grace.DefaultGuard + 2
	until := s.clock.now() + both
	for s.stepped != nil && s.clock.now() < until && s.stepped.Yield() {
	}
	if s.clock.now() < until {
		time.Sleep(both)
	}
	return s.Quiesce(ctx)
}

// Quiesce waits until every program that is running has ended, and returns when it began to.
func (s *Stream) Quiesce(ctx context.Context) (since uint64, err error) {
	return quiesce(ctx, s.clock.now, s.gone, func() <-chan error {
		s.mu.Lock()
		b := s.barrier
		s.mu.Unlock()
		return grace.ProgramsEnded(s.clock.kernel().Grace, s.opts.Barriers, b)
	})
}
