package order

import (
	"fmt"
	"time"
)

// watermark returns the time up to which events are due. Heads must be loaded after it. In exact mode
// what it covers is published by now. In slack mode the clock goes on meanwhile.
func (s *Stream) watermark() uint64 {
	if s.opts.Barrier != nil {
		return s.opts.Barrier.Watermark()
	}
	now := s.kernel.Now()
	return now - min(uint64(s.opts.Slack), now)
}

// Earliest returns the time of the earliest event that is held, Never if there is none.
func (s *Stream) Earliest() uint64 {
	time, _ := s.merger.Earliest()
	return time
}

// request sees to it that a barrier covers a time.
func (s *Stream) request(time uint64) {
	b := s.opts.Barrier
	if time <= b.Watermark() {
		return // it is due: a round that ended early has left it
	}
	if b.Idle() {
		s.requested = 0 // what was asked for has been done, or has failed
	}
	if time < s.requested {
		return
	}
	// The barrier reads the clock after this. It covers what is older than that by more than the guard.
	now := s.kernel.Now()
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
		return fmt.Errorf("for %v, events are held back: %w", d.Round(time.Second), err)
	}
	return nil
}
