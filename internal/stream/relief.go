package stream

import (
	"cmp"
	"slices"
	"time"
)

// checkEvery is how many events a round delivers between checks.
const checkEvery = 1024

func percent(part, whole uint64) int { return int(part * 100 / whole) }

// check relieves rings that fill up while the user handles a round's events. The events it finds
// there wait for the next round.
func (s *Ordered) check() {
	s.untilCheck = checkEvery
	for _, r := range s.rings {
		if percent(r.Raw.Head()-s.merger.freed(r.at), r.Raw.Size()) > s.opts.Above {
			s.load()
			s.relieve()
			return
		}
	}
}

// relieve copies the oldest bytes out of rings that are too full, the fullest ring first.
func (s *Ordered) relieve() {
	if s.opts.Spill == 0 {
		return
	}
	s.full = s.full[:0]
	for i := range s.rings {
		if s.fill(i) > s.opts.Above {
			s.full = append(s.full, i)
		}
	}
	slices.SortStableFunc(s.full, func(a, b int) int { return cmp.Compare(s.fill(b), s.fill(a)) })
	for _, i := range s.full {
		for s.fill(i) > s.opts.Until {
			bytes := s.merger.spill(i)
			if bytes == 0 && s.fill(i) > s.opts.Until {
				s.rings[i].source.Counts.SpillRefused.Add(1)
				break
			}
			s.rings[i].source.Counts.Spilled.Add(bytes)
		}
	}
	s.noteSpilled()
}

// noteSpilled updates how much memory holds copies.
func (s *Ordered) noteSpilled() {
	for _, src := range s.sources {
		used := uint64(0)
		for _, r := range src.taken {
			used += s.merger.copied(r.at)
		}
		if used != src.Counts.SpillUsed.Load() {
			src.Counts.SpillUsed.Store(used)
		}
	}
}

// fill returns how full a ring was when its head was loaded, in percent.
func (s *Ordered) fill(i int) int { return percent(s.used(i), s.rings[i].Raw.Size()) }

// Bounds of the time between scans in a wait that holds events.
const (
	leastScan = 200 * time.Microsecond
	mostScan  = 2 * time.Millisecond
)

// untilFull returns when a ring may need relief, if all rings keep filling as fast as between the
// latest two loads.
func (s *Ordered) untilFull() time.Duration {
	soonest := float64(mostScan)
	for i, r := range s.rings {
		if grown := r.head - r.before; grown > 0 {
			room := float64(r.Raw.Size())*float64(s.opts.Above)/100 - float64(s.used(i))
			soonest = min(soonest, room*float64(s.elapsed)/float64(grown))
		}
	}
	return max(leastScan, time.Duration(max(soonest, 0)))
}
