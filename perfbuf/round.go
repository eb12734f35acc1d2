package perfbuf

import (
	"os"

	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/raw"
)

// round delivers what is due of an ordered stream, in order. It is the walk of the stream's pass.
type round struct{ stream *Ordered }

func (s *Ordered) begin() (*pass, error) { return s.beginRound(false) }

// beginRound starts the delivery of what is due, or of all that the rings hold.
func (s *Ordered) beginRound(all bool) (*pass, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	s.order.Begin(all)
	s.reader.counts.passes.Add(1)
	s.pass.err = nil
	return &s.pass, nil
}

// next makes the next batch. It ends the life of the events before.
func (w *round) next() bool {
	w.settle()
	s := w.stream
	if s.halt.Load() {
		s.pass.err = os.ErrClosed
		return false
	}
	if events := s.order.Batch(); len(events) > 0 {
		s.pass.batch.set(events)
		return true
	}
	return s.marker()
}

// settle counts what has been taken of a batch, and gives the rest back.
func (w *round) settle() {
	s := w.stream
	for _, i := range s.order.Took(s.pass.batch.settle()) {
		s.tallies[i].samples++
	}
}

// marker makes a batch of the event that answers a Flush, if all that it asked for has been delivered.
func (s *Ordered) marker() bool {
	f := s.reader.flush.Load()
	return f != nil && s.order.Passed(f.time) && s.pass.answer(s.reader, f, max(f.time, s.order.Last()))
}

func (w *round) end() {
	w.settle()
	s := w.stream
	s.order.End(s.reader.flushTime())
	for i := range s.tallies {
		s.tallies[i].flush(&s.rings[i].counts)
	}
	s.release()
}

// orderedRings is the rings of a stream, as its order sees them.
type orderedRings Ordered

var _ order.Owner = (*orderedRings)(nil)

// Rings makes the rings of CPUs that have come online the stream's. addRing has claimed them.
func (s *orderedRings) Rings(from int) (later []order.Ring) {
	for _, ring := range s.reader.all()[from:] {
		s.rings = append(s.rings, ring)
		s.tallies = append(s.tallies, tally{})
		later = append(later, order.Ring{Memory: ring.raw, Losses: ring.losses()})
	}
	return later
}

func (s *orderedRings) Loaded(ring int, used uint64, grown bool) {
	if grown {
		s.reader.entries.Disarm(ring)
	}
	s.rings[ring].counts.observe(used)
}

func (s *orderedRings) Skipped(ring, records int) { s.tallies[ring].unknown += uint64(records) }

func (s *orderedRings) Single(ring int, ev raw.Event, dropped bool) {
	switch {
	case dropped:
		s.rings[ring].counts.dropped.Add(1)
	case ev.Kind() == raw.Sample:
		s.tallies[ring].samples++
	default:
		s.tallies[ring].add(ev.Odd())
	}
}

func (s *orderedRings) Freed(ring int, bytes uint64) {
	c := &s.rings[ring].counts
	c.tailStores.Add(1)
	c.bytes.Add(bytes)
	s.tallies[ring].flush(c)
}
