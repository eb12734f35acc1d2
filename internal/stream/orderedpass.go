package stream

import (
	"os"
)

// orderedPass is a round as a pass over a stream: it delivers the events that are due, and then a marker
// if one is due.
type orderedPass struct {
	stream *Ordered
	pass   *Pass
	done   func()
}

// SetPass makes p the stream's pass. It calls done at its end.
func (s *Ordered) SetPass(p *Pass, done func()) {
	p.Halt, p.Walk = s.opts.Halt, &orderedPass{stream: s, pass: p, done: done}
}

// Next makes the next batch. The events before become invalid.
func (w *orderedPass) Next() bool {
	w.settle()
	s := w.stream
	if s.opts.Halt.Load() {
		w.pass.Err = os.ErrClosed
		return false
	}
	if w.pass.Err = s.badTimes(); w.pass.Err != nil {
		return false
	}
	if events := s.Batch(); len(events) > 0 {
		w.pass.Batch.Set(events)
		return true
	}
	return w.marker()
}

// settle gives back the events of a batch that were not taken.
func (w *orderedPass) settle() {
	if n := w.pass.Batch.Settle(); n > 0 {
		w.stream.Took(n)
	}
}

// marker makes a batch of the event that gives the time up to which the stream is complete, if it
// answers a flush or the options want one now. One marker answers all calls. The errors of sources
// come after that.
func (w *orderedPass) marker() bool {
	s := w.stream
	switch {
	case w.answer(&s.Flushes):
	case s.MarkerDue():
		Mark(w.pass, s.MarkerTime(0))
	default:
		for i := 0; i < len(s.sources) && w.pass.Err == nil; i++ {
			w.answer(&s.sources[i].Rings.Failures)
		}
		return false
	}
	s.Marked()
	return true
}

// answer answers calls if the stream is complete up to their time. It reports whether the answer is
// a marker.
func (w *orderedPass) answer(flushes *Flushes) bool {
	f := flushes.Load()
	return f != nil && w.stream.Passed(f.Time) && flushes.Answer(w.pass, f, w.stream.MarkerTime(f.Time))
}

// End ends the round.
func (w *orderedPass) End() {
	w.settle()
	w.stream.End()
	w.done()
}
