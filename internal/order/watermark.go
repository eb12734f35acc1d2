package order

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
)

// watermark returns the time up to which events are due. Heads must be loaded after it. In exact mode
// what it covers is published by now. In slack mode the clock goes on meanwhile.
func (s *Stream) watermark() uint64 {
	if s.opts.Barrier != nil {
		return s.opts.Barrier.Watermark()
	}
	now := s.opts.Now()
	return now - min(uint64(s.opts.Slack), now)
}

// bound is what of a watermark holds for what a scan that came after it has found: in a source whose times were taken after the
// records were reserved, up to the load of the heads, or as long as what was reserved first of what is still busy.
func (s *Stream) bound(watermark uint64) uint64 {
	for _, src := range s.sources {
		if !src.Stamped {
			continue
		}
		for _, r := range src.taken {
			watermark = min(watermark, Covered(s.merger.StampedUpTo(r.at)))
		}
	}
	return watermark
}

// Covered is up to what time all is there once programs have ended that ran at this time, or, where programs stamp what they have reserved, once
// the heads are loaded: one less than the guard before, as in grace.Barrier.Round.
func Covered(time uint64) uint64 { return time - min(time, grace.DefaultGuard+1) }

// Complete returns the time up to which every event has been delivered, or dropped and counted. In exact
// mode none up to it can still come, and what is not proven, as of a source that is added, is late; in slack mode
// that is a guess. It never goes back. It may be called from anywhere.
//
// The load is an acquire and pairs with advance's store: whoever sees a time sees what the user's function did
// with the events up to it.
func (s *Stream) Complete() uint64 { return s.complete.Load() }

// advance moves on what is complete: the user's function has returned from all that is not held.
func (s *Stream) advance() {
	first := s.Earliest()
	if first == 0 {
		return
	}
	// What is held may be earlier than what was complete: with slack, as it came late; else what has no time of its own.
	complete := max(s.complete.Load(), min(s.proven, first-1))
	s.complete.Store(complete)
	if s.opts.Exact {
		s.merger.Complete(complete)
	}
}

// Earliest returns the time of the earliest event that is held, Never if there is none.
func (s *Stream) Earliest() uint64 {
	time, _ := s.merger.Earliest()
	return time
}

// request sees to it that a barrier covers a time.
func (s *Stream) request(time uint64) {
	b := s.opts.Barrier
	if b.Idle() {
		s.requested = 0 // what was asked for has been done, or has failed
	}
	// Loaded after Idle: a round that ends between the two would otherwise be asked for twice.
	if time <= b.Watermark() {
		return // it is due: a round that ended early has left it
	}
	if time < s.requested {
		return
	}
	// The barrier reads the clock after this. It covers what is older than that by more than the guard.
	now := s.opts.Now()
	if covers := now - min(now, b.Guard()+1); time < covers {
		s.requested = covers
		b.Request()
	}
}

// mostFailing is how long barriers may fail before a wait gives up.
const mostFailing = time.Second

// failing says why nothing gets on, if this wait and the barriers' failure have lasted for long.
func (s *Stream) failing() error {
	if s.scanned-s.began <= uint64(mostFailing) {
		return nil
	}
	if d, err := s.opts.Barrier.Failing(); d > mostFailing {
		return fmt.Errorf("events are held back for %v: %w", d.Round(time.Second), err)
	}
	return nil
}
