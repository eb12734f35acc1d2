package order

import (
	"math"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// Begin starts a round: it delivers what is due, or with all, everything that the rings hold and the
// losses that the kernel knows of.
func (s *Stream) Begin(all bool) {
	watermark := s.watermark()
	s.scan()
	if all {
		for i := range s.rings {
			s.askLosses(i)
		}
		watermark = math.MaxUint64 - 1
	}
	s.lastRound, s.upTo = s.scanned, watermark
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
		s.untilCheck--
		if s.admit(it) {
			s.events[0] = it.Event
			return s.events[:1]
		}
	}
	return nil
}

// Took says that the user has, or has had, the first n events of the latest batch, and gives the rest
// back. It returns the rings of these n, or none for an event that Owner.Single has counted.
func (s *Stream) Took(n int) []int {
	if s.merged == 0 {
		return nil
	}
	if n < s.merged {
		s.merger.Undo(s.origin[:s.merged], n)
	}
	s.merged = 0
	s.untilCheck -= n
	return s.origin[:n]
}

// admit counts an event that did not come in a batch, and reports whether to deliver it.
func (s *Stream) admit(it *merge.Item) bool {
	drop := false
	if it.Event.Late() {
		s.counts.Late.Add(1)
		if by := s.merger.Last() - it.Key; by > s.counts.MaxLateness.Load() {
			s.counts.MaxLateness.Store(by)
		}
		drop = s.opts.DropLate && it.Event.Kind() == raw.Sample
	}
	s.owner.Single(it.Ring, it.Event, drop)
	return !drop
}

// freed hears from the merger that a ring's tail was stored.
func (s *Stream) freed(i int, bytes uint64) {
	s.owner.Freed(i, bytes)
	// The ring may have filled up since the scan, and not be full any longer at the next.
	r := &s.rings[i]
	r.losses.filled(r.memory.Head()-s.merger.Freed(i)+bytes, r.memory.Size())
	s.yield()
}

// Passed reports whether everything up to a time has been delivered, by the end of a round.
func (s *Stream) Passed(time uint64) bool { return time <= s.upTo && s.Earliest() > time }

// Last returns the latest time that was delivered.
func (s *Stream) Last() uint64 { return s.merger.Last() }

// End ends a round and stores the rings' tails. flush is as for Next.
func (s *Stream) End(flush uint64) {
	s.merger.End()
	s.counts.SpillUsed.Store(s.merger.Spilled())
	if s.opts.Barrier != nil {
		if first := min(s.Earliest(), flush); first != Never {
			s.request(first)
		}
	}
}
