package order

import (
	"math"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// Begin starts a round: it delivers what is due.
func (s *Stream) Begin() {
	watermark := s.watermark()
	s.scan()
	s.begin(watermark, watermark, 0)
}

// BeginAll starts a round that delivers everything that the rings hold and the losses that the kernel
// knows of. All programs that ran at the time waited have ended; 0: nobody has waited for them.
func (s *Stream) BeginAll(waited uint64) {
	proven := max(s.watermark(), waited-min(waited, grace.DefaultGuard+1)) // as in grace.Barrier.Round
	s.scan()
	for i := range s.rings {
		s.askLosses(i)
	}
	s.begin(math.MaxUint64-1, proven, waited)
}

func (s *Stream) begin(watermark, proven, waited uint64) {
	s.lastRound, s.proven, s.waited = s.scanned, proven, waited
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
	r := &s.rings[it.Ring]
	if it.Event.Late() {
		s.counts.Late.Add(1)
		if by := s.merger.Last() - it.Key; by > s.counts.MaxLateness.Load() {
			s.counts.MaxLateness.Store(by)
		}
		if s.opts.DropLate && it.Event.Kind() == raw.Sample {
			r.found--
			r.tally.Dropped++
			return false
		}
	}
	switch odd := it.Event.Odd(); odd.Kind {
	case raw.Lost:
		r.tally.LostRecords++
		r.tally.Lost += odd.Lost
	case raw.Corrupt:
		r.tally.Corrupt++
		if odd.Fault == raw.FaultChanged {
			r.found-- // it was a sample
		}
	}
	return true
}

// count tells the owner what has been delivered of a ring, and how many bytes were freed now.
func (s *Stream) count(i int, freed uint64) {
	r := &s.rings[i]
	if held := uint64(s.merger.Held(i)); r.found > held {
		r.tally.Samples, r.found = r.found-held, held
	}
	r.tally.Freed = freed
	if r.tally != (Tally{}) {
		s.owner.Count(i, r.tally)
		r.tally = Tally{}
	}
}

// freed hears from the merger that a ring's tail was stored.
func (s *Stream) freed(i int, bytes uint64) {
	s.count(i, bytes)
	// The ring may have filled up since the scan, and not be full any longer at the next.
	r := &s.rings[i]
	r.losses.filled(r.memory.Head()-s.merger.Freed(i)+bytes, r.memory.Size())
	s.yield()
}

// End ends a round, also one that is not over, and stores the rings' tails. flush is as for Next.
func (s *Stream) End(flush uint64) {
	s.merger.End()
	s.advance()
	for i := range s.rings {
		s.count(i, 0)
	}
	s.counts.SpillUsed.Store(s.merger.Spilled())
	if s.opts.Barrier != nil {
		if first := min(s.Earliest(), s.marker(flush)); first != Never {
			s.request(first)
		}
	}
}
