package order

import (
	"math"
	"time"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// Begin starts a round: it delivers what is due.
func (s *Stream) Begin() {
	watermark := s.watermark()
	s.scan()
	watermark = s.bound(watermark)
	s.all = false
	s.begin(watermark, watermark, 0)
}

// BeginAll starts a round that delivers everything that the rings hold and the losses that the kernel
// knows of. All programs that ran at the time waited have ended; 0: nobody has waited for them.
func (s *Stream) BeginAll(waited uint64) {
	proven := max(s.watermark(), Covered(waited))
	s.ask()
	s.all = true
	s.begin(math.MaxUint64-1, s.bound(proven), waited)
}

// ask scans the rings, and adds the losses that the kernel knows of.
func (s *Stream) ask() {
	s.scan()
	for _, r := range s.rings {
		s.askLosses(r)
	}
}

// Extent returns the time up to which all lies that the rings hold now, and all losses that the kernel knows of. No round may be under way.
func (s *Stream) Extent() uint64 {
	s.ask()
	return s.merger.Latest()
}

// BeginDrain is BeginAll, but leaves what is neither up to a time nor proven to have nothing before it. As long as such may come of records that
// were reserved by then, in stamped ring buffers, it begins nothing, and returns after what time to try again. Markers answer calls up to called.
func (s *Stream) BeginDrain(called, waited, upTo uint64) (again time.Duration) {
	proven := max(s.watermark(), Covered(waited))
	s.scan()
	upTo = max(upTo, proven)
	for _, r := range s.rings {
		if r.source.Stamped && s.merger.Busy(r.at) > 0 && Covered(s.merger.StampedUpTo(r.at)) < upTo {
			return leastScan
		}
	}
	s.all = true
	s.begin(upTo, s.bound(proven), called)
	return 0
}

func (s *Stream) begin(watermark, proven, waited uint64) {
	s.lastRound, s.proven, s.waited = s.scanned, proven, waited
	for _, src := range s.sources {
		src.Rings.Passes.Add(1)
	}
	s.merger.Begin(watermark)
}

// Batch returns the round's next events, none if it is over. They are valid until the next call of a
// method. Took must have been called for those before.
func (s *Stream) Batch() []raw.Event {
	if s.untilCheck < 0 {
		s.check()
	}
	if n := s.merger.Batch(s.events, s.origin); n > 0 {
		s.merged = n
		return s.events[:n]
	}
	for it := s.merger.Next(); it != nil; it = s.merger.Next() {
		if s.admit(it) {
			s.events[0] = it.Event
			return s.events[:1]
		}
		s.untilCheck--
	}
	s.advance()
	return nil
}

// Took says that the user has, or has had, the first n events of the latest batch, and gives the rest
// back.
func (s *Stream) Took(n int) {
	if n < s.merged {
		s.merger.Undo(s.origin[:s.merged], n)
	}
	s.merged = 0
	s.untilCheck -= n
}

// admit counts an event that did not come in a batch, and reports whether to deliver it.
func (s *Stream) admit(it *merge.Item) bool {
	r := s.rings[it.Ring]
	if it.Event.Late() {
		c := r.source.Counts
		c.Late.Add(1)
		c.MaxLateness.Store(max(c.MaxLateness.Load(), it.Lateness))
		if s.opts.DropLate && it.Event.Kind() == raw.Sample {
			r.found--
			r.Counts.Dropped.Add(1)
			return false
		}
	}
	odd := it.Event.Odd()
	r.tally.Add(odd)
	if odd.Fault == raw.FaultChanged {
		r.found-- // it was a sample
	}
	return true
}

// count counts what has been delivered of a ring.
func (s *Stream) count(r *ring) {
	if held := uint64(s.merger.Held(r.at)); r.found > held {
		r.tally.Samples, r.found = r.found-held, held
	}
	r.tally.Flush(&r.Counts)
}

// freed hears from the merger that a ring's tail was stored.
func (s *Stream) freed(i int, bytes uint64) {
	r := s.rings[i]
	s.count(r)
	r.Leave()
	r.Counts.Stored(bytes)
	// The ring may have filled up since the scan, and not be full any longer at the next.
	r.losses.filled(r.Raw.Head()-s.merger.Freed(i)+bytes, r.Raw.Size())
	s.yield()
}

// End ends a round, also one that is not over, and stores the rings' tails.
func (s *Stream) End() {
	s.merger.End()
	s.advance()
	for _, r := range s.rings {
		s.count(r)
	}
	s.noteSpilled()
	if s.opts.Barrier != nil {
		if first := min(s.Earliest(), s.marker()); first != Never {
			s.request(first)
		}
	}
}
