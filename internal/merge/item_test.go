package merge_test

import (
	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
)

// item is what Next or Batch has delivered, spelled out.
type item struct {
	raw.Odd
	Ring int
	Key  uint64
	Late bool
	Len  int
	Data []byte // in its place
}

func itemOf(ev raw.Event, ring int, key, off, size uint64) *item {
	it := &item{Odd: *ev.Odd(), Ring: ring, Key: key, Late: ev.Late(), Len: ev.Len(), Data: ev.Bytes()}
	it.Kind, it.Time, it.Off, it.Size = ev.Kind(), ev.Time(), off, size
	return it
}

// next returns the next item as the first of a batch, if it can be, and gives back the others.
func next(m *merge.Merger) *item {
	n := m.Batch(batch[:1+m.Last()%uint64(merge.BatchSize)], batchRings)
	if n == 0 {
		it := m.Next()
		if it == nil {
			return nil
		}
		return itemOf(it.Event, it.Ring, it.Key, it.Off, it.Size)
	}
	m.Undo(batchRings[:n], 1)
	return batched(m, batch[0], batchRings[0])
}

// batched is the item that is the only one delivered of a Batch.
func batched(m *merge.Merger, ev raw.Event, ring int) *item {
	return itemOf(ev, ring, ev.Time(), m.LatestOff(ring), uint64(20+ev.Len()+7)&^7)
}

var batch, batchRings = make([]raw.Event, merge.BatchSize), make([]int, merge.BatchSize) // allocating them each time takes most of the time with -race
