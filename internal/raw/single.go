package raw

import "unsafe"

// Single makes events that do not share a view: non-samples, samples across the ring's edge, and
// samples with another time. It holds one at a time: the next reuses its memory. The poison build
// (tag perfbuf_poison) makes every sample one, in memory of its own that Expire destroys.
type Single struct {
	view  View
	odd   Odd
	cpu   int32 // of odd
	words []uint64
}

// Odd makes an event that is not a sample, of a ring, or of none if of is nil.
func (s *Single) Odd(of *Ring, o Odd) Event {
	s.odd, s.cpu = o, int32(o.CPU)
	// Invariant of word: a payload of no bytes lies in any memory.
	s.view = View{base: unsafe.Pointer(&noOdd), times: unsafe.Pointer(&s.odd.Time), cpus: unsafe.Pointer(&s.cpu), kind: o.Kind, odd: &s.odd, of: of}
	return Event{View: &s.view}
}

// Join copies a sample that Parse has found into contiguous memory. If its payload is too short for
// the ring's fields, it has the record's time and the ring's CPU.
func (s *Single) Join(r *Ring, rec *Record) Event {
	s.grow(rec.Size)
	r.CopyWords(s.words, rec.Off, rec.Size)
	s.view = r.bare().fields(r.timeAt, r.cpuAt, uint64(rec.Len)).on(s.words)
	// Invariant of word: Parse has checked Len against Size, of which words has as many bytes.
	return Event{View: &s.view, word: uint64(rec.Len) << 32}
}

// Timed returns a sample with this time instead of the one in its view.
func (s *Single) Timed(ev Event, time uint64) Event {
	s.view, s.odd.Time = *ev.View, time
	s.view.times, s.view.timeAt, s.view.timeMask = unsafe.Pointer(&s.odd.Time), 0, 0
	ev.View = &s.view
	return ev
}
