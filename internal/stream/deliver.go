package stream

import "os"

// A round is a pass: it delivers the events that are due, and then a marker if one is due.

// next makes the round's next events the pass's batch. The events before become invalid.
func (s *Ordered) next() bool {
	s.settle()
	if s.opts.Halt.Load() {
		s.pass.Err = os.ErrClosed
		return false
	}
	if s.pass.Err = s.badTimes(); s.pass.Err != nil {
		return false
	}
	if events := s.batch(); len(events) > 0 {
		s.pass.Batch.set(events)
		return true
	}
	return s.markerBatch()
}

// settle gives back the events of a batch that were not taken.
func (s *Ordered) settle() {
	if n := s.pass.Batch.settle(); n > 0 {
		s.took(n)
	}
}

// markerBatch makes a batch of the event that gives the time up to which the stream is complete, if
// it answers a flush or the options want one now. One marker answers all calls. The errors of
// sources come after that.
func (s *Ordered) markerBatch() bool {
	switch {
	case s.answer(&s.Flushes):
	case s.markerDue():
		mark(s.pass, s.markerTime(0))
	default:
		for i := 0; i < len(s.sources) && s.pass.Err == nil; i++ {
			s.answer(&s.sources[i].Rings.failures)
		}
		return false
	}
	s.noteMarker()
	return true
}

// answer answers calls if the stream is complete up to their time. It reports whether the answer is
// a marker.
func (s *Ordered) answer(flushes *Flushes) bool {
	f := flushes.Load()
	return f != nil && s.passed(f.Time) && flushes.answer(s.pass, f, s.markerTime(f.Time))
}

// end ends the round.
func (s *Ordered) end() {
	s.settle()
	s.endRound()
	s.done()
}
