package engine

import (
	"context"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/stream"
)

// Drain begins a round that delivers all output up to now, including that of running programs. That
// is everything if the programs are detached. It waits until no older output can come, and leaves
// later output of other programs. The caller becomes the stream's user.
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
	if err := s.acquire(); err != nil {
		return err
	}
	upTo := s.Order.Extent()
	if stream.Covered(waited) < upTo { // programs kept writing
		s.release()
		if waited, err = s.quiesceAll(ctx); err != nil {
			return err
		}
		if err := s.acquire(); err != nil {
			return err
		}
	}
	for {
		again := s.Order.BeginDrain(called, waited, upTo)
		if again == 0 {
			return nil
		}
		err := s.Order.Sleep(ctx, again, s.gone)
		s.release()
		if err == nil {
			err = s.acquire()
		}
		if err != nil {
			return err
		}
	}
}

// quiesceAll starts Quiesce so late that it covers all output from before the call, by any CPU's
// clock. A simulated kernel's clock may stand still.
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

// Quiesce waits until every running program has ended. since is when the wait began.
func (s *Stream) Quiesce(ctx context.Context) (since uint64, err error) {
	return quiesce(ctx, s.clock.now, s.gone, func() <-chan error {
		s.mu.Lock()
		b := s.barrier
		s.mu.Unlock()
		return grace.ProgramsEnded((*s.clock.of.Load()).Grace, s.opts.Barriers, b)
	})
}
