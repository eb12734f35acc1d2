package perfbuf

import (
	"context"
	"os"
	"time"
)

// Wait blocks until a pass would deliver something, ctx is done, or the stream or its reader is
// closed. Its errors are those of [Reader.Wait], and, in exact mode, [ErrBarriers]. Meanwhile it keeps
// rings from filling up: see [Spill].
//
// It paces passes, so that a steady flow is read in batches: in exact mode the barriers do that; in
// slack mode the next pass comes half the slack after the one before at the earliest (5 ms at most).
// With a plain wake-up policy that has a poll interval ([Wakeup]), it comes after that time, or when a ring
// holds as much as wakes the reader. With the doorbell, a stream that holds nothing looks at busy rings as
// often as the slack or the barriers' interval makes worth it, a millisecond at least.
func (s *Ordered) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	interval := s.reader.opts.Wakeup.PollInterval
	if s.reader.waker.Bell() != nil {
		interval = 0 // while events are held, their coming of age sets the pace
	}
	least := min(s.opts.Mode.slack/2, 5*time.Millisecond)
	pace := max(least, interval)
	began := s.reader.kernel.Now()
	for {
		watermark := s.watermark()
		s.scan()
		first, held := s.earliest()
		if !held {
			var atMost time.Duration // no limit
			if s.silent {
				atMost = silence
				if interval > 0 {
					atMost = min(interval, silence)
				}
			}
			if bell := s.reader.waker.Bell(); bell != nil && !bell.AllArmed() {
				atMost = s.glance()
			}
			if err := s.reader.wait(ctx, s, atMost); err != nil {
				return err
			}
			continue
		}
		if s.filling() {
			pace = min(pace, least)
		}
		now := s.scanned
		next := s.lastRound + uint64(pace)
		if s.reader.flush.Load() != nil {
			next, interval = 0, 0 // the poller would return at once until the marker is delivered: sleep instead
		}
		if first <= watermark && next <= now {
			return nil
		}
		until := s.turn(first, watermark, next)
		switch {
		case until > now:
		case s.barrier == nil: // it has become due since the watermark was chosen
			continue
		default: // all that is missing is a barrier
			if now-began > uint64(mostFailing) {
				if err := s.stuck(); err != nil {
					return err
				}
			}
			s.requestBarrier(first)
			until = forever
		}
		d := time.Duration(min(until-now, s.lookAgain()))
		if interval == 0 || until == forever {
			if err := s.sleep(ctx, d); err != nil {
				return err
			}
			continue
		}
		if err := s.reader.wait(ctx, s, d); err != nil {
			return err
		}
	}
}

// glance is how often to look at rings that ring no bell: as often as the mode's delay makes worth it, and
// not less often than the wake-up policy says.
func (s *Ordered) glance() time.Duration {
	delay := s.opts.Mode.slack
	if s.barrier != nil {
		delay = s.opts.BarrierInterval
	}
	return min(s.reader.opts.Wakeup.PollInterval, max(delay, time.Millisecond))
}

// filling reports whether a ring held, when it was scanned, as much as wakes the reader. The
// wake-up itself may have come during the last round, and is gone then.
func (s *Ordered) filling() bool {
	enough := s.reader.opts.threshold()
	for i := range s.heads {
		if s.used(i) >= enough {
			return true
		}
	}
	return false
}

// Bounds of how long a Wait with events in hand does not look at the rings, in ns.
const (
	leastLook = uint64(200 * time.Microsecond)
	mostLook  = uint64(2 * time.Millisecond)
)

// lookAgain returns in how many ns a ring may need relief, if all fill as fast as they did between
// the latest two scans.
func (s *Ordered) lookAgain() uint64 {
	soonest := float64(mostLook)
	for i, ring := range s.rings {
		if grown := s.heads[i] - s.before[i]; grown > 0 {
			room := float64(ring.raw.Size())*float64(s.opts.Spill.Above)/100 - float64(s.used(i))
			soonest = min(soonest, room*float64(s.elapsed)/float64(grown))
		}
	}
	return max(leastLook, uint64(max(soonest, 0)))
}

// nudge ends the present sleep, or the next.
func (s *Ordered) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

func (s *Ordered) sleep(ctx context.Context, d time.Duration) error {
	var barrier <-chan struct{}
	if s.barrier != nil {
		barrier = s.barrier.Done()
	}
	s.timer.Reset(d)
	select {
	case <-s.timer.C:
		return nil
	case <-barrier:
		return nil
	case <-s.nudged:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.gone:
		return os.ErrClosed
	case <-s.reader.done:
		return os.ErrClosed
	}
}
