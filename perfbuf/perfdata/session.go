package perfdata

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
)

// session feeds the rings of one replay, or of several merged ones, in order of time and by one
// clock.
type session struct {
	mu      sync.Mutex // guards what members read and put, too
	members []*replay
	queue   []turn  // a heap, while the rings are fed
	speed   float64 // 0: not paced
	fed     uint64  // the time of the latest that was put
	puts    uint64
	clock   clock
	looked  bool // somebody has waited, or read the clock, as streams do before they look at rings

	more chan struct{} // of capacity 1: a live recording has changed
}

func newSession(speed float64) *session { return &session{speed: speed, more: make(chan struct{}, 1)} }

// moving is held while a replay goes from one session to another.
var moving sync.Mutex

// join takes a replay over from its session.
func (s *session) join(k *replay) {
	moving.Lock()
	defer moving.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := k.session.Load()
	old.mu.Lock()
	defer old.mu.Unlock()
	last := k.last
	for _, m := range s.members {
		last = max(last, m.last)
	}
	if s.fresh() {
		s.fed = 0
		for _, m := range s.members {
			m.rewind(last)
		}
	}
	if old.fresh() {
		k.rewind(last)
	} else {
		s.fed = max(s.fed, old.fed)
	}
	if first := old.clock.first; first != 0 && (s.clock.first == 0 || first < s.clock.first) {
		s.clock.begun, s.clock.first = time.Now(), first
	}
	old.members = slices.DeleteFunc(old.members, func(m *replay) bool { return m == k })
	s.members = append(s.members, k)
	k.session.Store(s)
}

// fresh reports whether nobody has looked at the rings. Their events may then be taken back, as
// others may still have to put earlier ones.
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

// rewind empties the rings and starts over. last is the time of the last event of all members.
func (k *replay) rewind(last uint64) {
	if k.live != nil { // nothing of it is put before somebody has looked
		return
	}
	if k.o.Last > 0 {
		k.since = last - min(last, uint64(k.o.Last))
	}
	for _, r := range k.rings {
		r.empty()
	}
	k.at, k.index, k.pending = k.data, 0, false
	if k.err != os.ErrClosed {
		k.err = nil
	}
}

// feed fills the rings. It returns the member with the next event that is not in them, nil at the
// end, or before live recordings have come so far. No event before bound is still to come. Callers
// of it, and of the methods below, hold mu.
func (s *session) feed() (next *replay, bound uint64) {
	bound = math.MaxUint64
	s.queue = s.queue[:0]
	for i, k := range s.members {
		if k.live != nil && !s.looked {
			return nil, 0
		}
		if held := s.ready(k); k.pending {
			s.queue = append(s.queue, turn{k.next.time, i})
		} else {
			bound = min(bound, held)
		}
	}
	for i := len(s.queue)/2 - 1; i >= 0; i-- {
		s.sift(i)
	}
	for len(s.queue) > 0 {
		k := s.members[s.queue[0].member]
		switch r := k.ring(); {
		case k.next.time >= bound && bound < math.MaxUint64:
			return nil, bound
		case s.speed > 0 && k.next.time > s.clock.paced(s.speed, k.next.time), r != nil && !r.put(&k.next):
			return k, bound
		}
		s.fed, k.pending = max(s.fed, k.next.time), false
		s.puts++
		if held := s.ready(k); k.pending {
			s.queue[0].time = k.next.time
		} else {
			bound = min(bound, held)
			last := len(s.queue) - 1
			s.queue[0], s.queue = s.queue[last], s.queue[:last]
		}
		s.sift(0)
	}
	return nil, bound
}

// ready makes a member's next event pending. If there is none yet, it returns up to when others
// wait for it.
func (s *session) ready(k *replay) (bound uint64) {
	if k.err == nil && !k.pending {
		k.err = k.read()
	}
	if k.err != errNotYet {
		return math.MaxUint64
	}
	k.err = nil
	return k.live.holds(max(s.fed, s.clock.covered()))
}

// turn is a place in a heap: the time of a member's next event.
type turn struct {
	time   uint64
	member int
}

func (a turn) before(b turn) bool { return a.time < b.time || a.time == b.time && a.member < b.member }

// sift moves a place of the heap down to where it belongs.
func (s *session) sift(i int) {
	q := s.queue
	for {
		least := i
		for c := 2*i + 1; c < min(2*i+3, len(q)); c++ {
			if q[c].before(q[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

// live reports whether there may be more without anybody reading.
func (s *session) live() bool {
	return slices.ContainsFunc(s.members, func(k *replay) bool { return k.live != nil && k.err == nil })
}

// ended is the reason for the end once all is read, nil before.
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

// poller is the kernel.Poller of a replay's current session, or of a group's.
type poller struct {
	session    atomic.Pointer[session]
	interrupts chan struct{}
}

// lock locks the session.
func (p *poller) lock() *session {
	for {
		s := p.session.Load()
		s.mu.Lock()
		if p.session.Load() == s {
			return s
		}
		s.mu.Unlock()
	}
}

// Wait is kernel.Poller's. At the end, when all is read, it returns the reason.
func (p *poller) Wait(until time.Time, ready func(woken bool) bool) error {
	select {
	case <-p.interrupts: // it is a deadline, which this one replaces
	default:
	}
	for woken := false; ; woken = true {
		s := p.lock()
		s.looked = true
		pause := look
		next, _ := s.feed()
		switch {
		case next != nil && s.speed > 0:
			pause = s.clock.pause(s.speed, next.next.time)
		case next == nil && s.live():
			pause = time.Hour // more tells of it
		}
		s.mu.Unlock()
		if ready(woken) {
			return nil
		}
		s = p.lock()
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
		case <-s.more:
			timer.Stop()
		case <-p.interrupts:
			timer.Stop()
			return os.ErrDeadlineExceeded
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return os.ErrDeadlineExceeded
		}
	}
}

// Interrupt is kernel.Poller's.
func (p *poller) Interrupt() {
	select {
	case p.interrupts <- struct{}{}:
	default:
	}
}

// group is the kernel.Group of a stream that merges recordings. It keeps its session.
type group struct{ poller }

// Group is kernel.Kernel's.
func (k *replay) Group() (kernel.Group, error) {
	g := &group{poller{interrupts: make(chan struct{}, 1)}}
	g.session.Store(newSession(k.o.Speed))
	return g, g.Add(k)
}

// Add joins one more recording.
func (g *group) Add(k kernel.Kernel) error {
	other, ok := k.(*replay)
	if !ok {
		return errors.New("perfdata: a recording can only be merged with recordings: its events are from another time")
	}
	s := g.session.Load()
	if len(s.members) > 0 {
		switch k := s.members[0]; {
		case other.o.Speed != k.o.Speed:
			return errors.New("perfdata: recordings can only be merged at the same ReplayOptions.Speed: set it alike")
		case other.o.WallClock != k.o.WallClock:
			return errors.New("perfdata: recordings can only be merged if all or none have ReplayOptions.WallClock: set it alike")
		case !k.o.WallClock && other.host != k.host && other.host != "" && k.host != "":
			return fmt.Errorf("perfdata: %s was recorded on %s and %s on %s, by different clocks: set ReplayOptions.WallClock", k.file, k.host, other.file, other.host)
		}
	}
	s.join(other)
	return nil
}

// Remove makes a recording replay alone. It keeps its pace.
func (g *group) Remove(k kernel.Kernel) {
	s := g.lock()
	alone := newSession(s.speed)
	alone.clock = clock{begun: s.clock.begun, first: s.clock.first}
	s.mu.Unlock()
	alone.join(k.(*replay))
}

// Close makes all members replay alone.
func (g *group) Close() {
	for _, k := range slices.Clone(g.session.Load().members) {
		g.Remove(k)
	}
}
