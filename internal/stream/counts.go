package stream

import (
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Only the ring's owner writes Counts; anyone may read them.
type Counts struct {
	HighWater, Samples, Dropped, Bytes, LostRecords, Unknown, Corrupt, Discarded, Shared, TailStores atomic.Uint64
}

// Observe updates the high-water mark. Only the ring's owner calls it.
func (c *Counts) Observe(used uint64) {
	if used > c.HighWater.Load() {
		c.HighWater.Store(used)
	}
}

// Stored counts a store of the tail that freed so many bytes.
func (c *Counts) Stored(bytes uint64) {
	c.TailStores.Add(1)
	c.Bytes.Add(bytes)
}

// Tally gathers counts within a pass, where atomics would cost too much.
type Tally struct {
	Samples, LostRecords, Unknown, Corrupt, Discarded uint64
}

// Add counts an event that is not a sample.
func (t *Tally) Add(odd *raw.Odd) {
	switch odd.Kind {
	case raw.Lost:
		t.LostRecords++
	case raw.Corrupt:
		t.Corrupt++
	}
}

// Flush moves the tally to the ring's counts.
func (t *Tally) Flush(c *Counts) {
	// Atomic additions are slow, and Flush runs on each visit to a ring.
	if t.Samples > 0 {
		c.Samples.Add(t.Samples)
		t.Samples = 0
	}
	if t.LostRecords|t.Unknown|t.Corrupt|t.Discarded != 0 {
		c.LostRecords.Add(t.LostRecords)
		c.Unknown.Add(t.Unknown)
		c.Corrupt.Add(t.Corrupt)
		c.Discarded.Add(t.Discarded)
		*t = Tally{}
	}
}
