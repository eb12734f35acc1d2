package order

import "time"

// scan takes in what the rings hold, and keeps them from filling up. New rings come first: a watermark
// that was chosen before covers theirs too.
func (s *Stream) scan() {
	s.adopt()
	s.load()
	s.checkLosses()
	s.relieve()
}

// load loads the rings' heads and scans up to them.
func (s *Stream) load() {
	now := s.kernel.Now()
	s.elapsed, s.scanned = now-s.scanned, now
	for i := range s.rings {
		s.yield()
		r := &s.rings[i]
		r.before, r.head = r.head, r.memory.Head()
		used := s.used(i)
		s.owner.Loaded(i, used, r.head-r.before)
		r.losses.filled(used, r.memory.Size())
	}
	// No event seen is later than the clock now. A second is for clocks that disagree, with room to
	// spare.
	ceiling := s.kernel.Now() + uint64(time.Second)
	for i := range s.rings {
		held := s.merger.Held(i)
		found := s.merger.Scan(i, s.rings[i].head, ceiling)
		s.rings[i].found += uint64(s.merger.Held(i) - held)
		if found.Unknown|found.Inversions|found.Keyless != 0 {
			s.rings[i].tally.Unknown += uint64(found.Unknown)
			s.counts.Inversions.Add(uint64(found.Inversions))
			s.counts.Untimed.Add(uint64(found.Keyless))
		}
	}
}

// used is how many bytes a ring held when its head was loaded.
func (s *Stream) used(i int) uint64 {
	r := &s.rings[i]
	return min(r.head-s.merger.Freed(i), r.memory.Size())
}
