package perfbuf

import (
	"fmt"
	"math"
	"time"
)

// watermark returns the time up to which events are due. Heads must be loaded after it: in exact
// mode because what it covers is published now, in slack mode because the clock goes on meanwhile.
func (s *Ordered) watermark() uint64 {
	if s.barrier != nil {
		return s.barrier.Watermark()
	}
	now := s.reader.kernel.Now()
	return now - min(uint64(s.opts.Mode.slack), now)
}

// earliest is the time that is to be covered next: of an event that is held, or of a Flush.
func (s *Ordered) earliest() (time uint64, ok bool) {
	time, ok = s.merger.Earliest()
	if f := s.reader.flush.Load(); f != nil && (!ok || f.time < time) {
		return f.time, true
	}
	return time, ok
}

const forever = math.MaxUint64

// turn returns when to go on, given the earliest time that is held.
func (s *Ordered) turn(first, watermark, next uint64) uint64 {
	switch {
	case s.barrier == nil:
		return max(first+uint64(s.opts.Mode.slack), next)
	case first <= watermark:
		return next
	default: // a barrier that begins before that would not cover it
		return max(first+s.barrier.Guard()+2, next)
	}
}

// requestBarrier sees to it that a barrier covers a time.
func (s *Ordered) requestBarrier(time uint64) {
	if time <= s.barrier.Watermark() {
		return // it is due: a round that ended early has left it
	}
	if s.barrier.Idle() {
		s.requested = 0 // what was asked for has been done, or has failed
	}
	if time < s.requested {
		return
	}
	// The barrier reads the clock after this, and covers what is older than that by more than the guard.
	now := s.reader.kernel.Now()
	if covers := now - min(now, s.barrier.Guard()+1); time < covers {
		s.requested = covers
		s.barrier.Request()
	}
}

// mostFailing is how long barriers may fail before a Wait gives up.
const mostFailing = time.Second

// stuck says why nothing gets on, if all barriers have failed for long.
func (s *Ordered) stuck() error {
	if d, err := s.barrier.Failing(); d > mostFailing {
		return fmt.Errorf("%w: for %v, events are held back: %w", ErrBarriers, d.Round(time.Second), err)
	}
	return nil
}
