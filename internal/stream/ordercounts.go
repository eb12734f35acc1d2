package stream

import "sync/atomic"

// OrderCounts cover all streams of a reader. They may be loaded at any time.
type OrderCounts struct {
	Late        atomic.Uint64 // events marked late
	MaxLateness atomic.Uint64 // ns
	Inversions  atomic.Uint64 // samples that followed a later one in their ring
	Untimed     atomic.Uint64 // samples without a plausible time in their payload

	Spilled      atomic.Uint64 // bytes copied out of full rings
	SpillUsed    atomic.Uint64 // bytes of such copies in memory, as of the latest round or check
	SpillRefused atomic.Uint64 // times when the copy budget was used up
}

// noteSpilled updates how much memory holds copies.
func (s *Ordered) noteSpilled() {
	for _, src := range s.sources {
		used := uint64(0)
		for _, r := range src.taken {
			used += s.merger.Copied(r.at)
		}
		if used != src.Counts.SpillUsed.Load() {
			src.Counts.SpillUsed.Store(used)
		}
	}
}
