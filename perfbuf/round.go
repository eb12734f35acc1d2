package perfbuf

import (
	"math"
	"os"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// round delivers what is due of an ordered stream, in order.
type round struct {
	stream *Ordered
	events []raw.Event // of a batch of samples that lie in their rings
	rings  []int       // whose they are, as the merger counts
	merged bool        // the batch is some of these
}

func (s *Ordered) begin() (*pass, error) { return s.beginRound(false) }

// beginRound starts the delivery of what is due, or of all that the rings hold.
func (s *Ordered) beginRound(all bool) (*pass, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	watermark := s.watermark()
	s.scan()
	if all {
		s.countAllLosses()
		watermark = math.MaxUint64 - 1
	}
	s.lastRound, s.due = s.scanned, watermark
	s.merger.Begin(watermark)
	s.reader.counts.passes.Add(1)
	s.pass.err = nil
	return &s.pass, nil
}

// next makes the next batch. It ends the life of the events before.
func (w *round) next() bool {
	w.settle()
	s := w.stream
	for {
		if s.halt.Load() {
			s.pass.err = os.ErrClosed
			return false
		}
		if s.untilLook < 0 {
			s.look()
		}
		if n := s.merger.Batch(w.events, w.rings); n > 0 {
			w.merged = true
			s.pass.batch.set(w.events[:n])
			return true
		}
		s.untilLook--
		it := s.merger.Next()
		if it == nil {
			return s.marker()
		}
		if s.admit(it) {
			s.pass.one(it.Event)
			return true
		}
	}
}

// settle takes into account what has been taken of a batch, and gives the rest back to the merger.
func (w *round) settle() {
	n := w.stream.pass.batch.settle()
	if !w.merged {
		return
	}
	w.merged = false
	s := w.stream
	for _, i := range w.rings[:n] {
		s.tallies[i].samples++
	}
	s.untilLook -= n
	s.merger.Undo(w.rings[:len(s.pass.batch.list)], n)
}

// marker makes a batch of the event that answers a Flush, if all that it asked for has been delivered.
func (s *Ordered) marker() bool {
	f := s.reader.flush.Load()
	if f == nil || f.time > s.due {
		return false
	}
	if first, held := s.merger.Earliest(); held && first <= f.time {
		return false // the round has ended early
	}
	return s.pass.answer(s.reader, f, max(f.time, s.merger.Last()))
}

// admit takes into account what did not come in a batch, and reports whether to deliver it.
func (s *Ordered) admit(it *merge.Item) bool {
	sample := it.Event.Kind() == raw.Sample
	if it.Event.Late() {
		c := &s.reader.counts
		c.late.Add(1)
		if by := s.merger.Last() - it.Key; by > c.maxLateness.Load() {
			c.maxLateness.Store(by)
		}
		if s.opts.DropLate && sample {
			s.rings[it.Ring].counts.dropped.Add(1)
			return false
		}
	}
	if sample {
		s.tallies[it.Ring].samples++
	} else {
		s.tallies[it.Ring].add(it.Event.Odd())
	}
	return true
}

// committed is told by the merger that a ring's tail was published.
func (s *Ordered) committed(i int, bytes uint64) {
	c := &s.rings[i].counts
	c.tailStores.Add(1)
	c.bytes.Add(bytes)
	s.tallies[i].flush(c)
	// It may have filled up since the scan, and not be full any more at the next.
	ring := s.rings[i]
	s.suspectLoss(ring, ring.raw.Head()-s.merger.Freed(i)+bytes)
	s.reader.yield()
}

func (w *round) end() {
	w.settle()
	s := w.stream
	s.merger.End()
	s.reader.counts.spillUsed.Store(s.merger.Spilled())
	for i := range s.tallies {
		s.tallies[i].flush(&s.rings[i].counts)
	}
	if s.barrier != nil {
		if first, held := s.earliest(); held {
			s.requestBarrier(first)
		}
	}
	s.release()
}
