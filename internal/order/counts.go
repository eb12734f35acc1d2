package order

import "sync/atomic"

// Counts are of all streams of a reader. They may be loaded at any time.
type Counts struct {
	Late        atomic.Uint64 // events marked as such
	MaxLateness atomic.Uint64 // ns
	Inversions  atomic.Uint64 // samples that lay in their ring behind one with a later time
	Untimed     atomic.Uint64 // samples without a believable time in their payload

	Spilled      atomic.Uint64 // bytes copied out of full rings
	SpillUsed    atomic.Uint64 // bytes of memory that hold such copies, as of the latest round or check
	SpillRefused atomic.Uint64 // times that the budget for copies was used up
}

// noteSpilled notes how much memory holds copies.
func (s *Stream) noteSpilled() {
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
