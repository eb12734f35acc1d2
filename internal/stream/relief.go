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
	for _, r := range s.merger.rings {
		if percent(r.Raw.Head()-r.freed, r.Raw.Size()) > s.opts.Above {
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
	for _, r := range s.merger.rings {
		if r.percent() > s.opts.Above {
			s.full = append(s.full, r)
		}
	}
	slices.SortStableFunc(s.full, func(a, b *ring) int { return cmp.Compare(b.percent(), a.percent()) })
	for _, r := range s.full {
		for r.percent() > s.opts.Until {
			bytes := s.merger.spill(r.at)
			if bytes == 0 && r.percent() > s.opts.Until {
				r.source.Counts.SpillRefused.Add(1)
				break
			}
			r.source.Counts.Spilled.Add(bytes)
		}
	}
	s.noteSpilled()
}

// noteSpilled updates how much memory holds copies.
func (s *Ordered) noteSpilled() {
	for _, src := range s.sources {
		used := uint64(0)
		for _, r := range src.taken {
			used += r.copied()
		}
		if used != src.Counts.SpillUsed.Load() {
			src.Counts.SpillUsed.Store(used)
		}
	}
}

// percent returns how full a ring was when its head was loaded.
func (r *ring) percent() int { return percent(r.fill(), r.Raw.Size()) }

// Bounds of the time between scans in a wait that holds events.
const (
	leastScan = 200 * time.Microsecond
	mostScan  = 2 * time.Millisecond
)

// untilFull returns when a ring may need relief, if all rings keep filling as fast as between the
// latest two loads.
func (s *Ordered) untilFull() time.Duration {
	soonest := float64(mostScan)
	for _, r := range s.merger.rings {
		if grown := r.head - r.before; grown > 0 {
			room := float64(r.Raw.Size())*float64(s.opts.Above)/100 - float64(r.fill())
			soonest = min(soonest, room*float64(s.elapsed)/float64(grown))
		}
	}
	return max(leastScan, time.Duration(max(soonest, 0)))
}
