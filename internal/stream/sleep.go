package stream

import (
	"context"
	"os"
	"time"
)

// Sleep blocks for at most this time, or until a barrier ends or WakeUp is called. It returns
// context.Cause(ctx), or os.ErrClosed once the channel is closed.
func (s *Ordered) Sleep(ctx context.Context, d time.Duration, closed <-chan struct{}) error {
	if s.yield() { // in a simulation, others' actions make time pass
		return context.Cause(ctx)
	}
	var barrier <-chan struct{}
	if s.opts.barrier != nil {
		barrier = s.opts.barrier.Done()
	}
	s.timer.Reset(d)
	select {
	case <-s.timer.C:
		return nil
	case <-barrier:
		return nil
	case <-s.awake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-closed:
		return os.ErrClosed
	}
}

// WakeUp ends the present Sleep, or the next. It may be called from anywhere, and does not block.
func (s *Ordered) WakeUp() {
	select {
	case s.awake <- struct{}{}:
	default:
	}
}

// Stirred reports whether WakeUp has been called since the last sleep.
func (s *Ordered) Stirred() bool {
	select {
	case <-s.awake:
		return true
	default:
		return false
	}
}
