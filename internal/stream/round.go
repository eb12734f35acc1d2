package stream

import (
	"math"
	"time"

	"github.com/ringfold/ringfold/internal/raw"
)

// Begin starts a round that delivers the events that are due.
func (s *Ordered) Begin() {
	watermark := s.watermark()
	s.scan()
	watermark = s.bound(watermark)
	s.all = false
	s.begin(watermark, watermark, 0)
}

// BeginAll starts a round that delivers everything the rings hold and all losses the kernel knows.
// All programs that ran at the time waited have ended; 0: the caller has not waited for them.
func (s *Ordered) BeginAll(waited uint64) {
	proven := max(s.watermark(), Covered(waited))
	s.ask()
	s.all = true
	s.begin(math.MaxUint64-1, s.bound(proven), waited)
}

// ask scans the rings, and adds the losses that the kernel knows.
func (s *Ordered) ask() {
	s.scan()
	for _, r := range s.merger.rings {
		s.askLosses(r)
	}
}

// Extent returns the latest time of all events that the rings hold now, and of all losses that the
// kernel knows. No round may be under way.
func (s *Ordered) Extent() uint64 {
	s.ask()
	return s.merger.latest()
}

// BeginDrain is BeginAll, but leaves events that are later than upTo and not proven complete. Busy
// records in stamped ring buffers may still become events up to there. While there are such, it
// begins nothing and returns how long to wait before a retry. Markers answer calls up to called.
func (s *Ordered) BeginDrain(called, waited, upTo uint64) (again time.Duration) {
	proven := max(s.watermark(), Covered(waited))
	s.scan()
	upTo = max(upTo, proven)
	for _, r := range s.merger.rings {
		if r.source.Stamped && len(r.busy) > 0 && Covered(r.stampedUpTo()) < upTo {
			return leastScan
		}
	}
	s.all = true
	s.begin(upTo, s.bound(proven), called)
	return 0
}

func (s *Ordered) begin(watermark, proven, waited uint64) {
	s.lastRound, s.proven, s.waited = s.scanned, proven, waited
	for _, src := range s.sources {
		src.Rings.Passes.Add(1)
	}
	s.merger.begin(watermark)
}

// batch returns the round's next events, none if the round is over. They are valid until the next
// call of a method. Call took for each batch before the next.
func (s *Ordered) batch() []raw.Event {
	if s.untilCheck < 0 {
		s.check()
	}
	if n := s.merger.batch(s.events, s.origin); n > 0 {
		s.merged = n
		return s.events[:n]
	}
	for it := s.merger.next(); it != nil; it = s.merger.next() {
		if s.admit(it) {
			s.events[0] = it.event
			return s.events[:1]
		}
		s.untilCheck--
	}
	s.advance()
	return nil
}

// took notes that the user has taken the first n events of the latest batch, and gives the rest
// back.
func (s *Ordered) took(n int) {
	if n < s.merged {
		s.merger.undo(s.origin[:s.merged], n)
	}
	s.merged = 0
	s.untilCheck -= n
}

// admit counts an event that did not come in a batch, and reports whether to deliver it.
func (s *Ordered) admit(it *item) bool {
	r := s.merger.rings[it.ring]
	if it.event.Late() {
		c := r.source.Counts
		c.Late.Add(1)
		c.MaxLateness.Store(max(c.MaxLateness.Load(), it.lateness))
		if s.opts.DropLate && it.event.Kind() == raw.Sample {
			r.found--
			r.Counts.Dropped.Add(1)
			return false
		}
	}
	odd := it.event.Odd()
	r.tally.add(odd)
	if odd.Fault == raw.FaultChanged {
		r.found-- // it was a sample
	}
	return true
}

// count counts the delivered events of a ring.
func (s *Ordered) count(r *ring) {
	if held := uint64(r.samples()); r.found > held {
		r.tally.samples, r.found = r.found-held, held
	}
	r.tally.flush(&r.Counts)
}

// freed is the merger's callback after it has stored a ring's tail.
func (s *Ordered) freed(i int, bytes uint64) {
	r := s.merger.rings[i]
	s.count(r)
	r.leave()
	r.Counts.stored(bytes)
	// The ring may have filled up since the scan, yet have room again at the next.
	r.losses.filled(r.Raw.Head()-r.freed+bytes, r.Raw.Size())
	s.yield()
}

// endRound ends a round, even an unfinished one, and stores the rings' tails.
func (s *Ordered) endRound() {
	s.merger.end()
	s.advance()
	for _, r := range s.merger.rings {
		s.count(r)
	}
	s.noteSpilled()
	if b := s.opts.barrier; b != nil && !(s.waits && b.Quick()) {
		if first := min(s.Earliest(), s.marker()); first != never {
			s.request(first)
		}
	}
	s.waits = false
}
