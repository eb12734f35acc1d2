package raw_test

import (
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

var layouts = map[string]struct {
	layout raw.Layout
	before uint64 // bytes of a sample before its payload
}{
	"RAW":      {raw.LayoutRaw, 12},
	"RAW|TIME": {raw.LayoutRawTime, 20},
}

// A record of each size lies at each offset of a small ring, with counters that start anywhere.
func TestSampleAtEveryOffset(t *testing.T) {
	const size, time = 256, 0x1122334455667788
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{12, 13, 20, 28, 60, 100, 200, 228} {
				for at := uint64(0); at < size; at += 8 {
					for _, lap := range []uint64{0, 5 * size, 1<<32 - size, math.MaxUint64 - size + 1} {
						w := ringtest.New(size, l.layout, lap+at)
						require.NoError(t, w.Output(time, ringtest.Payload(at, n)))
						r := w.Raw()
						rec := ringtest.Parse(r, r.Tail(), r.Head())

						require.Equal(t, raw.Sample, rec.Kind)
						require.Equal(t, r.Head()-r.Tail(), rec.Size)
						require.Equal(t, rec.Size-l.before, uint64(rec.Len))
						if l.layout == raw.LayoutRawTime {
							require.Equal(t, uint64(time), rec.Time)
						} else {
							require.Zero(t, rec.Time)
						}
						ev, _, ok := r.View().Find(at)
						require.Equal(t, at+rec.Size <= size && at+24 <= size, ok, "in one piece")
						if ok {
							start := at + l.before
							require.Equal(t, unsafe.SliceData(w.Data()[start:]), unsafe.SliceData(ev.Bytes()), "in its place")
						} else {
							ev = new(raw.Single).Join(r, &rec)
						}
						require.Equal(t, rec.Time, ev.Time())
						require.Equal(t, int(rec.Len), ev.Len())
						id, err := ringtest.Check(ev.Bytes())
						require.NoError(t, err)
						require.Equal(t, at, id)
					}
				}
			}
		})
	}
}

func TestSampleThatEndsAtTheEdgeIsInOnePiece(t *testing.T) {
	w := ringtest.New(128, raw.LayoutRawTime, 128-40)
	require.NoError(t, w.Output(1, ringtest.Payload(9, 20)))
	require.NoError(t, w.Output(2, ringtest.Payload(10, 20)))
	r := w.Raw()
	first, size, ok := r.View().Find(128 - 40)
	require.True(t, ok)
	require.Equal(t, uint64(40), size)
	require.Equal(t, 20, first.Len())
	second, _, ok := r.View().Find(r.At(128))
	require.True(t, ok)
	require.Equal(t, &w.Data()[20], &second.Bytes()[0], "the next one begins at the base")
}

// A raw_size that no kernel writes, but that fits in: no byte beyond the edge is part of the first part.
func TestRawSizesAroundTheEdge(t *testing.T) {
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			for n := range uint32(40) {
				const room = 12 // bytes of the payload before the edge
				w := ringtest.New(128, l.layout, 256-l.before-room)
				body := make([]byte, l.before+44-8)
				binary.NativeEndian.PutUint32(body[l.before-12:], n)
				w.Put(ringtest.TypeSample, body)
				r := w.Raw()
				rec := ringtest.Parse(r, r.Tail(), r.Head())
				require.Equal(t, raw.Sample, rec.Kind)
				require.Equal(t, n, rec.Len)
				require.Len(t, new(raw.Single).Join(r, &rec).Bytes(), int(n))
			}
		})
	}
}

func TestEmptySampleAtTheEdge(t *testing.T) {
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			w := ringtest.New(64, l.layout, 64-l.before-4)
			w.Put(ringtest.TypeSample, make([]byte, l.before-4)) // raw_size 0, then 4 bytes up to the edge
			r := w.Raw()
			rec := ringtest.Parse(r, r.Tail(), r.Head())
			require.Equal(t, raw.Sample, rec.Kind)
			require.Zero(t, rec.Len)
			require.Empty(t, new(raw.Single).Join(r, &rec).Bytes())
			require.Equal(t, l.before+4, rec.Size)
		})
	}
}
