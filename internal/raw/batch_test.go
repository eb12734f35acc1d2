package raw_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// sameBatch requires that Batch is Parse over and over: up to what is no sample, or wraps, or is so short and so near to the ring's
// edge, or to the head, that Batch does not look whether it is one.
func sameBatch(t *testing.T, r *raw.Ring, off, stop, head uint64, n int) (got int) {
	recs := raw.NewBatch(n)
	got, end := r.Batch(off, stop, head, recs)
	tooFar := head-off > r.Size()
	var rec raw.Record
	for i := range got {
		if int64(stop-off) <= 0 || tooFar {
			t.Fatalf("%d records; the %dth is at the stop", got, i)
		}
		r.Parse(off, head, &rec)
		want := raw.Record{Kind: raw.Sample, Data: rec.Data, First: rec.Len, Len: rec.Len, Time: rec.Time}
		if rec.Kind != raw.Sample || rec.First != rec.Len || recs[i] != want {
			t.Fatalf("record %d is %+v, where Parse finds %+v", i, recs[i], rec)
		}
		off += rec.Size
	}
	if off != end {
		t.Fatalf("ended at %d, but the last record ends at %d", end, off)
	}
	if got == n || int64(stop-off) <= 0 || tooFar {
		return got
	}
	edge := r.Size() - off&(r.Size()-1)
	if r.Parse(off, head, &rec); rec.Kind == raw.Sample && rec.Size <= edge && min(edge, head-off) >= 24 && (edge < r.Size() || got == 0) {
		t.Fatalf("ended after %d of %d in front of %+v", got, n, rec)
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
