package order

import "sync/atomic"

// Tally is what becomes of a ring's records.
type Tally struct {
	Samples     uint64 // delivered
	Dropped     uint64 // samples that came late
	Lost        uint64 // outputs, as delivered
	LostRecords uint64 // events that say so
	Unknown     uint64 // records of types that are not delivered
	Corrupt     uint64 // events of corrupt memory
	Freed       uint64 // bytes given back to the kernel by a store of the tail; 0: there was none
}

// Counts are of all streams of a reader. They may be loaded at any time.
type Counts struct {
	Late        atomic.Uint64 // events that came after one with a later time
	MaxLateness atomic.Uint64 // ns
	Inversions  atomic.Uint64 // samples that lay in their ring behind one with a later time
	Untimed     atomic.Uint64 // samples without a believable time in their payload

	Spilled      atomic.Uint64 // bytes copied out of full rings
	SpillUsed    atomic.Uint64 // bytes of memory that hold such copies, as of the latest round or check
	SpillRefused atomic.Uint64 // times that the budget for copies was used up
}
