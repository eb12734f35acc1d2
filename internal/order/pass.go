package order

import (
	"os"

	"github.com/ringfold/ringfold/internal/walk"
)

// Pass is a round as a pass over a stream: it delivers the events that are due, and then a marker
// if one is due.
type Pass struct {
	stream *Stream
	pass   *walk.Pass
	done   func()
}

// SetPass makes p the stream's pass. It calls done at its end.
func (s *Stream) SetPass(p *walk.Pass, done func()) {
	p.Halt, p.Walk = s.opts.Halt, &Pass{stream: s, pass: p, done: done}
}

// Next makes the next batch. The events before become invalid.
func (w *Pass) Next() bool {
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
func (w *Pass) settle() {
	if n := w.pass.Batch.Settle(); n > 0 {
		w.stream.Took(n)
	}
}

// marker makes a batch of the event that gives the time up to which the stream is complete, if it
// answers a flush or the options want one now. One marker answers all calls. The errors of sources
// come after that.
func (w *Pass) marker() bool {
	s := w.stream
	switch {
	case w.answer(&s.Flushes):
	case s.MarkerDue():
		walk.Mark(w.pass, s.MarkerTime(0))
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
func (w *Pass) answer(flushes *walk.Flushes) bool {
	f := flushes.Load()
	return f != nil && w.stream.Passed(f.Time) && flushes.Answer(w.pass, f, w.stream.MarkerTime(f.Time))
}

// End ends the round.
func (w *Pass) End() {
	w.settle()
	w.stream.End()
	w.done()
}
