package main

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cilium/ebpf/perf"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// collector is collect-sort: all events of a round are copied out and sorted. Its memory is used again.
type collector struct {
	events []collected
	bytes  []byte
}

type collected struct {
	time     uint64
	from, to int // in bytes
}

func (c *collector) drain(s *perfbuf.Stream, f deliver) error {
	c.events, c.bytes = c.events[:0], c.bytes[:0]
	err := s.ForEach(func(ev perfbuf.Event) error {
		if ev.Kind() != perfbuf.KindSample {
			return errLoss
		}
		from := len(c.bytes)
		c.bytes = append(c.bytes, ev.Bytes()...)
		c.events = append(c.events, collected{ev.Time(), from, len(c.bytes)})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(c.events, func(a, b collected) int { return cmp.Compare(a.time, b.time) })
	for _, e := range c.events {
		f(e.time, c.bytes[e.from:e.to])
	}
	return nil
}

// recordReader is what a heap is filled from: a perf.Reader, or a copy of its loop.
type recordReader interface{ ReadInto(*perf.Record) error }

// heapOrder is cilium-heap: all records, until end, go through a heap, by the time that their payload
// begins with.
func heapOrder(r recordReader, end error, h *recordHeap, f deliver) error {
	for {
		rec := h.fresh()
		if err := r.ReadInto(&rec.Record); errors.Is(err, end) {
			h.unused = append(h.unused, rec)
			break
		} else if err != nil {
			return err
		}
		if rec.LostSamples > 0 {
			return errLoss
		}
		rec.time = binary.NativeEndian.Uint64(rec.RawSample[workload.TimeOffset:])
		heap.Push(h, rec)
	}
	for len(h.all) > 0 {
		rec := heap.Pop(h).(*timedRecord)
		f(rec.time, rec.RawSample)
		h.unused = append(h.unused, rec)
	}
	return nil
}

type timedRecord struct {
	perf.Record
	time uint64
}

// recordHeap implements heap.Interface. Records are used again, so nothing is allocated once it has
// grown, which is more than most programs do.
type recordHeap struct{ all, unused []*timedRecord }

func (h *recordHeap) fresh() *timedRecord {
	n := len(h.unused)
	if n == 0 {
		return new(timedRecord)
	}
	rec := h.unused[n-1]
	h.unused = h.unused[:n-1]
	return rec
}

func (h *recordHeap) Len() int           { return len(h.all) }
func (h *recordHeap) Less(i, j int) bool { return h.all[i].time < h.all[j].time }
func (h *recordHeap) Swap(i, j int)      { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *recordHeap) Push(rec any)       { h.all = append(h.all, rec.(*timedRecord)) }
func (h *recordHeap) Pop() any {
	n := len(h.all)
	rec := h.all[n-1]
	h.all = h.all[:n-1]
	return rec
}
