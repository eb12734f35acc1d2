package perfdata

import (
	"math"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
)

// clock is a replay's clock. Events enter the rings in order of time. While the clock shows the
// latest event's time plus the guard, a barrier that reads it covers all events in the rings.
type clock struct {
	begun time.Time // when the first event was due, at the recorded pace
	first uint64
	shown uint64
	puts  uint64 // when it was shown
	stuck int    // times that it was shown since
}

const (
	proven = grace.DefaultGuard + 2 // a barrier covers events older than this
	future = 1000 * time.Hour       // no slack is as long
	look   = time.Millisecond       // between looks for room in a ring with another reader
	bored  = 8
)

// now reads the clock, after the rings were fed. next has the next event; nil: there is none, or
// none yet. None before bound is still to come.
func (c *clock) now(s *session, next *replay, bound uint64) uint64 {
	now := s.fed + proven
	switch {
	case next == nil && s.live():
		// All that was put is proven, and nothing at the time bound. The clock goes no further,
		// even if nobody is waited for: whoever will be must not seem to have fallen behind.
		if bound < math.MaxUint64 {
			now = max(now, bound+proven-2)
		}
	case next == nil:
		now = max(now+uint64(future), c.shown+proven) // it goes on, as rounds have a pace
	case s.speed > 0 && next.next.time > c.paced(s.speed, next.next.time):
		now = max(c.paced(s.speed, next.next.time), 1)
	case s.puts != c.puts:
		c.puts, c.stuck = s.puts, 0
		now = min(now, next.next.time+proven-2) // events of the same time are still to come
	default:
		// A ring is full of events of one time, or of a time that a slack or the pace of rounds
		// holds back. Events still come in order if the clock goes on.
		if c.stuck++; c.stuck > bored {
			now = c.shown + proven<<min(c.stuck-bored, 25)
		}
	}
	c.shown = max(c.shown, now)
	return c.shown
}

// covered is a time up to which events may have been delivered.
func (c *clock) covered() uint64 { return c.shown - min(c.shown, proven) }

// paced is the recording's time at a multiple of its pace. The first call starts at first.
func (c *clock) paced(speed float64, first uint64) uint64 {
	if c.begun.IsZero() {
		c.begun, c.first = time.Now(), first
	}
	return c.first + uint64(float64(time.Since(c.begun))*speed)
}

// pause is how long to wait until the next event is due, or until there may be room for it.
func (c *clock) pause(speed float64, next uint64) time.Duration {
	if now := c.paced(speed, next); next > now {
		return time.Duration(min(float64(next-now)/speed, float64(future))) + 1 // rounded up
	}
	return look
}
