package perfbuf

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/order"
)

// Wait blocks until a pass would deliver something, ctx is done, or the stream or a reader of it is closed.
// Its errors are those of [Reader.Wait], and, in exact mode, [ErrBarriers]. Meanwhile it keeps rings
// from filling up: see [Spill].
//
// It paces passes, so that a steady flow is read in batches. In exact mode the barriers do that. In
// slack mode the next pass comes half the slack after the one before at the earliest (5 ms at most).
//
// A plain wakeup policy with a poll interval ([Wakeup]) puts the next pass off by that time, or until a
// ring holds as much as wakes the reader. With the doorbell, a stream that holds nothing looks at busy
// rings once per slack or barrier interval, at most once per ms.
func (s *Ordered) Wait(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := s.acquire(); err != nil {
			return err
		}
		if due, err := s.await(ctx); due || err != nil {
			return err
		}
	}
}

// await is Wait, of a caller who has acquired the stream. It returns false if the sources are to change first.
func (s *Ordered) await(ctx context.Context) (due bool, err error) {
	defer s.release()
	s.order.StartWait()
	for !s.changed.Load() {
		step, err := s.order.Step()
		waker := s.waker.Load()
		switch {
		case err != nil:
			return false, fmt.Errorf("%w: %w", ErrBarriers, err)
		case step.Do == order.Deliver:
			return true, nil
		case step.Do == order.Sleep:
			err = s.order.Sleep(ctx, step.For, s.gone)
		case waker == nil: // there are no sources
			err = s.order.Sleep(ctx, time.Hour, s.gone)
		default:
			err = waker.Wait(ctx, s.parts, step.For)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
