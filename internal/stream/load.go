package stream

import "time"

// scan reads the rings' new records, and keeps the rings from filling up. It adopts new rings
// first: a watermark chosen earlier covers theirs too.
func (s *Ordered) scan() {
	s.adopt()
	s.load()
	s.checkLosses()
	s.countedLosses()
	s.relieve()
}

// load loads the rings' heads and scans up to them.
func (s *Ordered) load() {
	now := s.opts.Now()
	s.elapsed, s.scanned = now-s.scanned, now
	for _, r := range s.merger.rings {
		s.yield()
		r.tail()
		r.before, r.head = r.head, r.Raw.Head()
		if grown := r.head - r.before; grown > 0 {
			r.source.Rings.flowed(r.index, grown)
		}
		used := r.fill()
		r.Counts.observe(used)
		r.losses.filled(used, r.Raw.Size())
	}
	// No event seen is later than the clock now. A second allows for clocks that disagree, with
	// room to spare.
	ceiling := s.opts.Now() + uint64(time.Second)
	for _, r := range s.merger.rings {
		held := r.samples()
		found := r.scanTo(r.head, ceiling, now)
		samples := r.samples() - held
		r.found += uint64(samples)
		r.source.times.judge(samples, found)
		if found.unknown|found.inversions|found.keyless|found.discarded != 0 {
			r.tally.discarded += uint64(found.discarded)
			r.tally.unknown += uint64(found.unknown)
			r.source.Counts.Inversions.Add(uint64(found.inversions))
			r.source.Counts.Untimed.Add(uint64(found.keyless))
		}
		if found.unknown|found.discarded != 0 {
			s.merger.giveBack(r.at) // else they fill the ring and wake nobody before the next round
		}
	}
}

// fill returns how many bytes a ring held when its head was loaded.
func (r *ring) fill() uint64 { return min(r.head-r.freed, r.Raw.Size()) }
