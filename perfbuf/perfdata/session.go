package perfdata

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
)

// session is a replay, or several that are merged: events are put into the rings in order of time over all of them, and there is one clock.
type session struct {
	mu      sync.Mutex // held to feed; what members read and put is under it
	members []*replay
	speed   float64 // 0: not paced
	fed     uint64  // the time of the latest that was put
	puts    uint64
	clock   clock
	looked  bool // somebody has waited, or read the clock, as streams do before they look at rings
}

// joining is held while a session gets members from others.
var joining sync.Mutex

// join makes a session of replays, which leave theirs.
func join(members []*replay) *session {
	joining.Lock()
	defer joining.Unlock()
	s := &session{members: members, speed: members[0].speed}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := uint64(0)
	for _, k := range members {
		last = max(last, k.last)
	}
	for _, k := range members {
		if old := k.session.Load(); old != nil {
			old.mu.Lock()
			if old.fresh() {
				k.rewind(last)
			} else {
				s.fed = max(s.fed, old.fed)
			}
			if first := old.clock.first; first != 0 && (s.clock.first == 0 || first < s.clock.first) {
				s.clock.begun, s.clock.first = time.Now(), first
			}
			old.members = slices.DeleteFunc(old.members, func(m *replay) bool { return m == k })
			k.session.Store(s)
			old.mu.Unlock()
		} else {
			k.rewind(last)
			k.session.Store(s)
		}
	}
	return s
}

// fresh reports whether nobody has looked at the rings, so that what they hold may be taken back: it may be later than what others have still to
// put.
func (s *session) fresh() bool {
	for _, k := range s.members {
		for _, r := range k.memory {
			if r.Tail() != 0 {
				return false
			}
		}
	}
	return !s.looked
}

// rewind empties the rings and begins anew. last is the time of the last event that will be replayed.
func (k *replay) rewind(last uint64) {
	if k.keep > 0 {
		k.since = last - min(last, k.keep)
	}
	for _, r := range k.rings {
		r.empty()
	}
	k.at, k.index, k.pending = k.data, 0, false
	if k.err != os.ErrClosed {
		k.err = nil
	}
}

// lock locks the session that a replay, or a group, is in.
func lock(in *atomic.Pointer[session]) *session {
	for {
		s := in.Load()
		s.mu.Lock()
		if in.Load() == s {
			return s
		}
		s.mu.Unlock()
	}
}

func (k *replay) lock() *session { return lock(&k.session) }

// first is the member that has the next event, nil if there is no more. The caller holds mu, as it does for what follows.
func (s *session) first() (first *replay) {
	for _, k := range s.members {
		if k.err == nil && !k.pending {
			k.err = k.read()
		}
		if k.err == nil && (first == nil || k.next.time < first.next.time) {
			first = k
		}
	}
	return first
}

// feed puts as much into the rings as there is room for, and returns the member that has the next event.
func (s *session) feed() *replay {
	for {
		k := s.first()
		if k == nil || s.speed > 0 && k.next.time > s.clock.paced(s.speed, k.next.time) {
			return k
		}
		if r := k.ring(); r != nil && !r.put(&k.next) {
			return k
		}
		s.fed, k.pending = max(s.fed, k.next.time), false
		s.puts++
	}
}

// ended is why there is no more once all is read, nil before.
func (s *session) ended() (why error) {
	for _, k := range s.members {
		if k.err == nil || !k.isRead() {
			return nil
		}
		if why == nil || why == io.EOF {
			why = k.err
		}
	}
	return why
}

// wait is kernel.Poller's. At the end, when all is read, it returns the reason.
func wait(lock func() *session, interrupts chan struct{}, until time.Time, ready func(woken bool) bool) error {
	select {
	case <-interrupts: // it is a deadline, which this one replaces
	default:
	}
	for woken := false; ; woken = true {
		s := lock()
		s.looked = true
		pause := look
		if next := s.feed(); next != nil && s.speed > 0 {
			pause = s.clock.pause(s.speed, next.next.time)
		}
		s.mu.Unlock()
		if ready(woken) {
			return nil
		}
		s = lock()
		err := s.ended()
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if !until.IsZero() {
			pause = min(pause, time.Until(until))
		}
		if pause <= 0 {
			return os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-interrupts:
			timer.Stop()
			return os.ErrDeadlineExceeded
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return os.ErrDeadlineExceeded
		}
	}
}

func interrupt(interrupts chan struct{}) {
	select {
	case interrupts <- struct{}{}:
	default:
	}
}

// group is what a stream waits by that merges recordings.
type group struct {
	session    atomic.Pointer[session]
	members    []*replay // for those who add and remove them
	interrupts chan struct{}
}

// Group is kernel.Kernel's.
func (k *replay) Group() (kernel.Group, error) {
	g := &group{interrupts: make(chan struct{}, 1)}
	return g, g.Add(k)
}

// Add joins one more recording.
func (g *group) Add(k kernel.Kernel) error {
	other, ok := k.(*replay)
	if !ok {
		return errors.New("perfdata: a recording can only be merged with recordings: its events are from another time")
	}
	if len(g.members) > 0 {
		switch k := g.members[0]; {
		case other.speed != k.speed:
			return errors.New("perfdata: recordings can only be merged at the same ReplayOptions.Speed: set it alike")
		case other.wall != k.wall:
			return errors.New("perfdata: recordings can only be merged if all or none have ReplayOptions.WallClock: set it alike")
		case !k.wall && other.host != k.host && other.host != "" && k.host != "":
			return fmt.Errorf("perfdata: %s was recorded on %s and %s on %s, by different clocks: set ReplayOptions.WallClock", k.file, k.host, other.file, other.host)
		}
	}
	g.members = append(g.members, other)
	g.session.Store(join(slices.Clone(g.members)))
	return nil
}

// Remove has one replayed alone.
func (g *group) Remove(k kernel.Kernel) {
	g.members = slices.DeleteFunc(g.members, func(m *replay) bool { return m == k })
	join([]*replay{k.(*replay)})
}

// Close has all replayed alone.
func (g *group) Close() {
	for _, k := range slices.Clone(g.members) {
		g.Remove(k)
	}
}

// Wait is kernel.Poller's.
func (g *group) Wait(until time.Time, ready func(woken bool) bool) error {
	return wait(func() *session { return lock(&g.session) }, g.interrupts, until, ready)
}

// Interrupt is kernel.Poller's.
func (g *group) Interrupt() { interrupt(g.interrupts) }
