package perfbuf

import (
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/kernel"
)

// slots is what the map's entries of the rings hold. Programs read them, and so each change counts
// for those outputs that look an entry up afterwards.
type slots struct {
	set      func(ring int, to kernel.Entry) error
	disarmed func() // is told when a ring has been disarmed, or that it cannot be

	mu     sync.Mutex // held while they are changed
	paused bool
	closed bool
	armed  []atomic.Bool // the ring's entry is its doorbell, or will be when not paused
	count  *atomic.Int32

	arms, disarms atomic.Uint64
	failure       atomic.Pointer[error] // why a ring could not be armed or disarmed
	torn          atomic.Pointer[error] // why pause could not change every entry; nil: it could, or tries again
}

// newSlots makes room for the entries of so many rings, of which count tells how many there are.
func newSlots(room int, count *atomic.Int32, set func(ring int, to kernel.Entry) error) *slots {
	return &slots{set: set, disarmed: func() {}, armed: make([]atomic.Bool, room), count: count}
}

// arm makes each output to a ring wake the reader, or none until the watermark. It reports whether
// that worked. Looking at the ring's head has to follow arming: see doorbell.
func (s *slots) arm(ring int, on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed[ring].Load() == on || s.closed {
		return true
	}
	if !on {
		defer s.disarmed()
	}
	if !s.paused {
		if err := s.set(ring, plainOrBell(on)); err != nil {
			s.failure.Store(&err)
			return false
		}
	}
	s.armed[ring].Store(on)
	if on {
		s.arms.Add(1)
	} else {
		s.disarms.Add(1)
	}
	return true
}

func plainOrBell(armed bool) kernel.Entry {
	if armed {
		return kernel.Bell
	}
	return kernel.Plain
}

// disarm is arm(ring, false), for every event's sake quick when there is nothing to do.
func (s *slots) disarm(ring int) {
	if s.armed[ring].Load() {
		s.arm(ring, false)
	}
}

// err is why an entry could not be changed, nil if all could.
func (s *slots) err() error {
	for _, p := range []*atomic.Pointer[error]{&s.failure, &s.torn} {
		if err := p.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// pause empties the entries, or puts back what belongs there. If it could not for each of them, the next
// call does it again.
func (s *slots) pause(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.paused == on && s.torn.Load() == nil {
		return nil
	}
	var failed error
	for i := range int(s.count.Load()) {
		to := kernel.Empty
		if !on {
			to = plainOrBell(s.armed[i].Load())
		}
		if err := s.set(i, to); err != nil && failed == nil {
			failed = err
		}
	}
	s.paused = on
	if failed == nil {
		s.torn.Store(nil)
		return nil
	}
	// Rings are looked at by the timer then. While paused, arming sets no entry, and those that are still in the
	// map would ring no bell.
	s.torn.Store(&failed)
	return failed
}

// renew sets a ring's entry again, to perf events that are new.
func (s *slots) renew(ring int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.disarmed()
	if s.paused || s.closed {
		return nil
	}
	return s.set(ring, plainOrBell(s.armed[ring].Load()))
}

// close leaves the entries alone from now on.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
