package stream

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
)

// watermark returns the time up to which events are due. Load the heads after it. In exact mode,
// all events it covers are published by then. In slack mode, the clock goes on in the meantime.
func (s *Ordered) watermark() uint64 {
	if s.opts.barrier != nil {
		return s.opts.barrier.Watermark()
	}
	now := s.opts.Now()
	return now - min(uint64(s.opts.Slack), now)
}

// bound limits a watermark to the times for which the latest scan, which came after it, has found
// all events. In a stamped source that is up to the load of the heads, or up to the reservation of
// the first busy record.
func (s *Ordered) bound(watermark uint64) uint64 {
	for _, src := range s.sources {
		if !src.Stamped {
			continue
		}
		for _, r := range src.taken {
			watermark = min(watermark, Covered(r.stampedUpTo()))
		}
	}
	return watermark
}

// Covered returns the time up to which all events are there once the programs that ran at this time
// have ended. For stamped records, it is enough that the heads are loaded. It is the guard plus 1
// ns before this time, as in grace.Barrier.Round.
func Covered(time uint64) uint64 { return time - min(time, grace.DefaultGuard+1) }

// Complete returns the time up to which every event has been delivered, or dropped and counted. In
// exact mode no event up to it can still come, and unproven ones, as of an added source, are late.
// In slack mode it is a guess. It never goes back. It may be called from anywhere.
//
// The load is an acquire and pairs with advance's store. A caller that sees a time also sees the
// effects of the user's function for all events up to it.
func (s *Ordered) Complete() uint64 { return s.complete.Load() }

// advance moves complete forward: the user's function has returned from all events that are not
// held.
func (s *Ordered) advance() {
	first := s.Earliest()
	if first == 0 {
		return
	}
	// A held event may be earlier than the old value: with slack, if it came late; otherwise, if it
	// carries no time.
	complete := max(s.complete.Load(), min(s.proven, first-1))
	s.complete.Store(complete)
	if s.opts.Exact {
		s.merger.complete(complete)
	}
}

// Earliest returns the time of the earliest held event, never if there is none.
func (s *Ordered) Earliest() uint64 {
	time, _ := s.merger.earliest()
	return time
}

// request makes sure that a barrier covers a time.
func (s *Ordered) request(time uint64) {
	b := s.opts.barrier
	if b.Idle() {
		s.requested = 0 // the request has been met, or has failed
	}
	// Load the watermark after Idle: else a barrier that ends in between would be requested twice.
	if time <= b.Watermark() {
		return // the time is due: a round that ended early has left it
	}
	if time < s.requested {
		return
	}
	// The barrier reads the clock after this, and covers times older than that by more than the
	// guard.
	now := s.opts.Now()
	if covers := now - min(now, b.Guard()+1); time < covers {
		s.requested = covers
		b.Request()
	}
}

// mostFailing is how long barriers may fail before a wait gives up.
const mostFailing = time.Second

// failing returns why no event becomes due, if this wait and the barriers' failure have both lasted
// long.
func (s *Ordered) failing() error {
	if s.scanned-s.began <= uint64(mostFailing) {
		return nil
	}
	if d, err := s.opts.barrier.Failing(); d > mostFailing {
		return fmt.Errorf("events are held back for %v: %w", d.Round(time.Second), err)
	}
	return nil
}
