package perfbuf

import (
	"context"
	"fmt"

	"github.com/ringfold/ringfold/internal/order"
)

// Wait blocks until a pass would deliver something, ctx is done, or the stream or its reader is closed.
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
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	s.order.StartWait()
	for {
		step, err := s.order.Next(s.reader.flushTime())
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrBarriers, err)
		case step.Do == order.Deliver:
			return nil
		case step.Do == order.Sleep:
			err = s.order.Sleep(ctx, step.For, s.gone, s.reader.gate.Done())
		default:
			err = s.reader.wait(ctx, s, step.For)
		}
		if err != nil {
			return err
		}
	}
}

// flushTime is the time of a Flush whose marker has not been delivered.
func (r *Reader) flushTime() uint64 {
	if f := r.walk.Flushes.Load(); f != nil {
		return f.Time
	}
	return order.Never
}
