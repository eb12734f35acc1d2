package raw_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// sameBatch requires that Batch is Parse over and over: up to what is no sample, or wraps.
func sameBatch(t *testing.T, r *raw.Ring, off, stop, head uint64, n int) int {
	recs := raw.NewBatch(n)
	got, end := r.Batch(off, stop, head, recs)
	var want raw.Record
	at := off
	for i := range got {
		require.Positive(t, int64(stop-at))
		r.Parse(at, head, &want)
		require.Equal(t, raw.Record{Kind: raw.Sample, Data: want.Data, First: want.First, Len: want.Len, Time: want.Time}, recs[i])
		require.Equal(t, want.Len, want.First)
		at += want.Size
	}
	require.Equal(t, at, end)
	if got < n && head-off <= r.Size() && int64(stop-at) > 0 {
		r.Parse(at, head, &want)
		room := r.Size() - at&(r.Size()-1)
		require.True(t, want.Kind != raw.Sample || want.Size > room || min(room, head-at) < 24 || room == r.Size() && got > 0, "ended in front of %+v: %d of %d, off %d, stop %d, head %d", want, got, n, off, stop, head)
	}
	return got
}

func TestBatchAgainstParse(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, layout := range []raw.Layout{raw.LayoutRaw, raw.LayoutRawTime} {
		full := 0
		for range 4000 {
			w := ringtest.New(512, layout, math.MaxUint64-1023+8*rnd.Uint64N(128))
			off := w.Head()
			var ends []uint64
			for range 1 + rnd.IntN(12) {
				if rnd.IntN(24) == 0 {
					w.Put(ringtest.TypeThrottle, make([]byte, 8*rnd.IntN(4)))
				}
				w.Output(rnd.Uint64(), ringtest.Payload(1, 12+rnd.IntN(40)))
				ends = append(ends, w.Head())
			}
			if rnd.IntN(3) == 0 { // a field of some record, perhaps
				w.Data()[rnd.IntN(512)] = []byte{0, 8, 9, 16, 24, 32, 255}[rnd.IntN(7)]
			}
			stop := ends[rnd.IntN(len(ends))]
			if sameBatch(t, w.Raw(), off, stop, w.Head(), 1+rnd.IntN(6)) > 2 {
				full++
			}
			require.Zero(t, sameBatch(t, w.Raw(), off, stop, off+512+8, 4), "the head is too far ahead")
		}
		require.Greater(t, full, 400)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(make([]byte, 512), uint64(0), uint64(512), 3)
	w := ringtest.New(512, raw.LayoutRawTime, 0)
	for i := range uint64(6) {
		w.Output(i, ringtest.Payload(i, 12+int(i)*9))
	}
	f.Add(w.Data(), uint64(0), w.Head(), 9)
	f.Fuzz(func(t *testing.T, data []byte, off, length uint64, n int) {
		if len(data) < 512 || n < 0 || n > 100 {
			return
		}
		for _, layout := range []raw.Layout{raw.LayoutRaw, raw.LayoutRawTime} {
			w := ringtest.New(512, layout, 0)
			copy(w.Data(), data)
			off, length := off&^7, length&^7
			sameBatch(t, w.Raw(), off, off+length%(length/2+8)&^7, off+length, n)
		}
	})
}
