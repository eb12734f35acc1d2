package perfbuf

import (
	"cmp"
	"slices"
	"time"
)

// A ring that was rather full may have lost events. The record that says so comes with the CPU's next
// output, and stands where they are missing; but if the CPU goes quiet, it never comes. So a ring
// that is silent for a while after that is asked about: that interrupts its CPU.
const (
	suspectPercent = 50 // records may be large
	silence        = 50 * time.Millisecond
)

// scan takes into account what the rings hold, and keeps them from filling up.
func (s *Ordered) scan() {
	s.adopt()
	s.load()
	s.countSilentLosses()
	s.relieve()
}

func (s *Ordered) load() {
	r := s.reader
	began := r.kernel.Now()
	s.elapsed, s.scanned = began-s.scanned, began
	s.heads, s.before = s.before, s.heads
	for i, ring := range s.rings {
		r.yield()
		s.heads[i] = ring.raw.Head()
		if s.heads[i] != s.before[i] {
			r.entries.Disarm(i)
		}
		ring.counts.observe(s.used(i))
		s.suspectLoss(ring, s.used(i))
	}
	// No event seen is later than the clock now. A second is for clocks that disagree, with room to spare.
	ceiling := r.kernel.Now() + uint64(time.Second)
	for i := range s.heads {
		found := s.merger.Scan(i, s.heads[i], ceiling)
		if found.Unknown|found.Inversions|found.Keyless != 0 {
			s.tallies[i].unknown += uint64(found.Unknown)
			r.counts.inversions.Add(uint64(found.Inversions))
			r.counts.untimed.Add(uint64(found.Keyless))
		}
	}
}

// look is a scan in the middle of a round, for the sake of rings that fill up while the round's
// events are with the user. What it finds is for the next round.
func (s *Ordered) look() {
	s.untilLook = lookEvery
	for i, ring := range s.rings {
		if percent(ring.raw.Head()-s.merger.Freed(i), ring.raw.Size()) > s.opts.Spill.Above {
			s.load()
			s.relieve()
			return
		}
	}
}

// lookEvery is how many events are delivered between looks.
const lookEvery = 1024

// used is how many bytes a ring held when it was scanned.
func (s *Ordered) used(i int) uint64 {
	return min(s.heads[i]-s.merger.Freed(i), s.rings[i].raw.Size())
}

func percent(part, whole uint64) int { return int(part * 100 / whole) }

// visit is a ring that is too full.
type visit struct {
	index int // among the reader's rings
	ring  *Ring
	used  uint64
}

// relieve copies the oldest bytes of rings that are too full out, the fullest ring first.
func (s *Ordered) relieve() {
	s.visits = s.visits[:0]
	for i, ring := range s.rings {
		if used := s.used(i); percent(used, ring.raw.Size()) > s.opts.Spill.Above {
			s.visits = append(s.visits, visit{index: i, ring: ring, used: used})
		}
	}
	if s.opts.Spill.Bytes < 0 {
		return
	}
	c := &s.reader.counts
	slices.SortStableFunc(s.visits, func(a, b visit) int { return cmp.Compare(b.used, a.used) }) // all are of one size
	for _, v := range s.visits {
		size := v.ring.raw.Size()
		for percent(s.used(v.index), size) > s.opts.Spill.Until {
			bytes := s.merger.Spill(v.index)
			if bytes == 0 && percent(s.used(v.index), size) > s.opts.Spill.Until {
				c.spillRefused.Add(1)
				break
			}
			c.spilled.Add(bytes)
		}
	}
	c.spillUsed.Store(s.merger.Spilled())
}

// suspectLoss notes that a ring was found half full or more.
func (s *Ordered) suspectLoss(ring *Ring, used uint64) {
	if percent(used, ring.raw.Size()) >= suspectPercent {
		ring.suspect = true
	}
}

// countSilentLosses asks the kernel for losses that no record has reported and none may ever report.
func (s *Ordered) countSilentLosses() {
	s.silent = false
	for i, ring := range s.rings {
		switch {
		case !ring.suspect:
		case s.heads[i] != ring.suspectHead:
			ring.suspectHead, ring.suspectSince = s.heads[i], s.scanned
			s.silent = true
		case s.scanned-ring.suspectSince < uint64(silence):
			s.silent = true
		default:
			s.countLosses(i)
			// If it is still full, it is asked again after as long.
			ring.suspect, ring.suspectSince = false, s.scanned
		}
	}
}

func (s *Ordered) countAllLosses() {
	for i := range s.rings {
		s.countLosses(i)
	}
}

// countLosses adds the losses of a ring that no record has reported, if that ring has been silent since its
// head was loaded. If not, a record reports them, or it is asked again: added now, they would stand
// behind events that came after them.
func (s *Ordered) countLosses(i int) {
	total, ok := s.reader.kernel.Lost(i)
	ring := s.rings[i]
	if known := s.known(i); ok && total > known && ring.raw.Head() == s.heads[i] {
		// One that is being written meanwhile reports the same, and is cut by what is added now.
		s.merger.Lose(i, total-known, s.reader.kernel.Now())
	}
}

// known is how many losses of a ring have been delivered, by whomever, or are held.
func (s *Ordered) known(i int) uint64 { return s.rings[i].reported + s.merger.Reported(i) }
