package stream

import (
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// RingCounts count one ring's events. Only the ring's owner writes them; anyone may read them.
type RingCounts struct {
	HighWater, Samples, Dropped, Bytes, LostRecords, Shed, Unknown, Corrupt, Discarded, Shared, TailStores atomic.Uint64
}

// observe updates the high-water mark. Only the ring's owner calls it.
func (c *RingCounts) observe(used uint64) {
	if used > c.HighWater.Load() {
		c.HighWater.Store(used)
	}
}

// stored counts a store of the tail that freed so many bytes.
func (c *RingCounts) stored(bytes uint64) {
	c.TailStores.Add(1)
	c.Bytes.Add(bytes)
}

// ReaderCounts count what all ordered streams of a reader have found. They may be loaded at any
// time.
type ReaderCounts struct {
	Late        atomic.Uint64 // events marked late
	MaxLateness atomic.Uint64 // ns
	Inversions  atomic.Uint64 // samples that followed a later one in their ring
	Untimed     atomic.Uint64 // samples without a plausible time in their payload

	Spilled      atomic.Uint64 // bytes copied out of full rings
	SpillUsed    atomic.Uint64 // bytes of such copies in memory, as of the latest round or check
	SpillRefused atomic.Uint64 // times when the copy budget was used up
}

// tally gathers counts within a pass, where atomics would cost too much.
type tally struct {
	samples, lostRecords, shed, unknown, corrupt, discarded uint64
}

// add counts an event that is not a sample.
func (t *tally) add(odd *raw.Odd) {
	switch odd.Kind {
	case raw.Lost:
		t.lostRecords++
	case raw.Shed:
		t.shed += odd.Lost
	case raw.Corrupt:
		t.corrupt++
	}
}

// flush moves the tally to the ring's counts.
func (t *tally) flush(c *RingCounts) {
	// Atomic additions are slow, and Flush runs on each visit to a ring.
	if t.samples > 0 {
		c.Samples.Add(t.samples)
		t.samples = 0
	}
	if t.lostRecords|t.shed|t.unknown|t.corrupt|t.discarded != 0 {
		c.LostRecords.Add(t.lostRecords)
		c.Shed.Add(t.shed)
		c.Unknown.Add(t.unknown)
		c.Corrupt.Add(t.corrupt)
		c.Discarded.Add(t.discarded)
		*t = tally{}
	}
}
