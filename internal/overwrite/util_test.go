package overwrite

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

// ring is a ring on Go memory, written as the kernel writes one backwards.
type ring struct {
	meta []uint64
	data []uint64
	raw  *raw.Ring
	head uint64
}

func newRing(t testing.TB, size int) *ring {
	t.Helper()
	r := &ring{meta: make([]uint64, 512), data: make([]uint64, size/8)}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(r.data))), size)
	var err error
	r.raw, err = raw.New(unsafe.Pointer(unsafe.SliceData(r.meta)), bytes, raw.LayoutRawTime)
	require.NoError(t, err)
	r.raw.SetCPU(3)
	return r
}

// put writes bytes in front of the newest, without publishing them.
func (r *ring) put(words ...uint64) {
	r.head -= 8 * uint64(len(words))
	for i, w := range words {
		r.data[(r.head/8+uint64(i))%uint64(len(r.data))] = w
	}
}

func (r *ring) publish() { atomic.StoreUint64(&r.meta[1024/8], r.head) }

// sample is a record whose payload is words, of which the first is cut in two by raw_size.
func sample(time uint64, words ...uint64) []uint64 {
	n := uint64(len(words))
	rec := []uint64{9 | (24+8*n)<<48, time, 4 + 8*n}
	return append(rec, words...)
}

func lost(time, n uint64) []uint64 { return []uint64{2 | 32<<48, 0, n, time} }

// output outputs a sample with its number.
func (r *ring) output(time, number uint64, extra int) {
	r.put(sample(time, append([]uint64{number}, make([]uint64, extra)...)...)...)
	r.publish()
}

func take(r *ring, until uint64) *Copy {
	c := NewCopy(r.raw, -1)
	c.Take()
	c.Check()
	c.Index(until)
	return c
}

type got struct{ time, number uint64 }

// events are the numbers of what copies have; those of losses are what was lost, from 1000 on.
func events(copies ...*Copy) (all []got) {
	Events(copies)(func(ev raw.Event) bool {
		if ev.Kind() == raw.Lost {
			all = append(all, got{ev.Time(), 1000 + ev.Odd().Lost})
			return true
		}
		all = append(all, got{ev.Time(), binary.NativeEndian.Uint64(ev.Bytes()[4:])})
		return true
	})
	return all
}
