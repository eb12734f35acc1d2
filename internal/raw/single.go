package raw

import "unsafe"

// Single makes events that do not lie in a view with others: what is no sample, a sample that goes over its
// ring's edge, one with a time of its own. There is one at a time: the next takes its memory. In the poison
// build (tag perfbuf_poison) every sample is made one, in memory of its own that Expire destroys.
type Single struct {
	view  View
	odd   Odd
	cpu   int32 // of odd
	words []uint64
}

// Odd makes an event of a ring that is no sample. of is nil if it is of none.
func (s *Single) Odd(of *Ring, o Odd) Event {
	s.odd, s.cpu = o, int32(o.CPU)
	// Invariant of Word: a payload of no bytes lies in any memory.
	s.view = View{base: unsafe.Pointer(&noOdd), times: unsafe.Pointer(&s.odd.Time), cpus: unsafe.Pointer(&s.cpu), kind: o.Kind, odd: &s.odd, of: of}
	return Event{View: &s.view}
}

// Join makes an event of a sample that Parse has found, by copying it into one piece. If its payload is too short for
// the ring's fields, it has the record's time and the ring's CPU.
func (s *Single) Join(r *Ring, rec *Record) Event {
	s.grow(rec.Size)
	r.CopyWords(s.words, rec.Off, rec.Size)
	s.view = r.bare().fields(r.timeAt, r.cpuAt, uint64(rec.Len)).on(s.words)
	// Invariant of Word: Parse has checked Len against Size, of which words has as many bytes.
	return Event{View: &s.view, Word: uint64(rec.Len) << 32}
}

// Timed makes an event of a sample that has this time instead of the one in its view.
func (s *Single) Timed(ev Event, time uint64) Event {
	s.view, s.odd.Time = *ev.View, time
	s.view.times, s.view.timeAt, s.view.timeMask = unsafe.Pointer(&s.odd.Time), 0, 0
	ev.View = &s.view
	return ev
}
