package perfbuf

import (
	"os"

	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/walk"
)

// round delivers what is due of an ordered stream, in order. It is the walk of the stream's pass.
type round struct{ stream *Ordered }

// begin starts the delivery of what is due.
func (s *Ordered) begin() (*Batch, error) { return s.beginRound((*order.Stream).Begin) }

// beginAll starts the delivery of all that the rings hold. waited is what quiesce has returned, or 0.
func (s *Ordered) beginAll(waited uint64) (*Batch, error) {
	return s.beginRound(func(o *order.Stream) { o.BeginAll(waited) })
}

func (s *Ordered) beginRound(begin func(*order.Stream)) (*Batch, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	begin(s.order)
	s.reader.walk.Passes.Add(1)
	s.pass.Err = nil
	return &s.batch, nil
}

// Next makes the next batch. It ends the life of the events before.
func (w *round) Next() bool {
	w.settle()
	s := w.stream
	if s.halt.Load() {
		s.pass.Err = os.ErrClosed
		return false
	}
	if events := s.order.Batch(); len(events) > 0 {
		s.pass.Batch.Set(events)
		return true
	}
	return s.marker()
}

// settle gives back what has not been taken of a batch.
func (w *round) settle() {
	s := w.stream
	if n := s.pass.Batch.Settle(); n > 0 {
		s.order.Took(n)
	}
}

// marker makes a batch of the event that says up to when the stream is complete, if it answers a Flush, or
// the options want one now.
func (s *Ordered) marker() bool {
	flushes := &s.reader.walk.Flushes
	f := flushes.Load()
	if f == nil || !s.order.Passed(f.Time) || !flushes.Answer(s.pass, f, s.order.MarkerTime(f.Time)) {
		if !s.order.MarkerDue() {
			return false
		}
		walk.Mark(s.pass, s.order.MarkerTime(0))
	}
	s.order.Marked()
	return true
}

func (w *round) End() {
	w.settle()
	s := w.stream
	s.order.End(s.reader.flushTime())
	s.release()
}

// orderedRings is the rings of a stream, as its order sees them.
type orderedRings Ordered

var _ order.Owner = (*orderedRings)(nil)

// Rings makes the rings of CPUs that have come online the stream's. addRing has claimed them.
func (s *orderedRings) Rings(from int) (later []order.Ring) {
	for _, ring := range s.reader.all()[from:] {
		s.rings = append(s.rings, ring)
		later = append(later, order.Ring{Memory: ring.raw, Losses: ring.losses()})
	}
	return later
}

func (s *orderedRings) Loaded(ring int, used, grown uint64) {
	if grown > 0 {
		s.reader.entries.Flowed(ring, grown)
	}
	s.rings[ring].walk.Counts.Observe(used)
}

func (s *orderedRings) Count(ring int, t order.Tally) {
	c := &s.rings[ring].walk.Counts
	counted := walk.Tally{Samples: t.Samples, Lost: t.Lost, LostRecords: t.LostRecords, Unknown: t.Unknown, Corrupt: t.Corrupt}
	counted.Flush(c)
	if t.Dropped > 0 {
		c.Dropped.Add(t.Dropped)
	}
	if t.Freed > 0 {
		c.TailStores.Add(1)
		c.Bytes.Add(t.Freed)
	}
}
