package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
)

// shedder lowers what programs output, lane by lane, while a stream's user cannot keep up, and
// raises it again once it can. Changes are at least shedStep apart.
type shedder struct {
	limit time.Duration // on the delay of events
	now   func() time.Time

	mu      sync.Mutex
	latest  uint64           // time of the latest event at the end of the previous pass
	lanes   []kernel.Shedder // of the stream's readers, as of the latest pass
	spare   []kernel.Shedder // the memory of those of the pass before
	below   int              // lanes below are shed
	changed time.Time
	late    time.Time // the latest pass whose delay was over half of the limit
	timer   *time.Timer
	closed  bool
}

const shedStep = 100 * time.Millisecond

// passed notes at the end of a pass how long ago the latest event delivered so far was output, and
// who outputs in lanes.
func (s *shedder) passed(latest, clock uint64, sources []*source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if latest == s.latest || latest > clock { // the pass has delivered none
		return
	}
	s.latest = latest
	delay := time.Duration(clock - latest)
	lanes := s.spare[:0]
	for _, src := range sources {
		if l := src.reader.Parts.Shedder; l != nil {
			lanes = append(lanes, l)
		}
	}
	for _, l := range s.lanes {
		if s.below > 0 && !slices.Contains(lanes, l) { // its reader was removed
			l.Shed(0)
		}
	}
	s.lanes, s.spare = lanes, s.lanes
	now := s.now()
	if delay > s.limit/2 {
		s.late = now
	}
	if delay > s.limit && now.Sub(s.changed) >= shedStep {
		s.shed(s.below+1, now)
	}
}

// shed sheds the lanes below, but never a map's last. The caller holds mu.
func (s *shedder) shed(below int, now time.Time) {
	most := 0
	for _, l := range s.lanes {
		most = max(most, l.Lanes()-1)
	}
	if below > most || s.closed {
		return
	}
	s.below, s.changed = below, now
	for _, l := range s.lanes {
		l.Shed(min(below, max(l.Lanes()-1, 0)))
	}
	if below > 0 {
		// By a timer, as there may be no pass while all that programs output is shed.
		if s.timer == nil {
			s.timer = time.AfterFunc(shedStep, s.relax)
		} else {
			s.timer.Reset(shedStep)
		}
	}
}

// relax sheds a lane less if no pass was late since the latest change.
func (s *shedder) relax() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch {
	case s.closed || s.below == 0:
	case now.Sub(s.late) < shedStep || now.Sub(s.changed) < shedStep:
		s.timer.Reset(shedStep / 2)
	default:
		s.shed(s.below-1, now)
	}
}

// close ends all shedding.
func (s *shedder) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.below > 0 {
		s.shed(0, s.now())
		s.timer.Stop()
	}
	s.closed = true
}
