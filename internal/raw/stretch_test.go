package raw_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// sameStretch requires that a Stretch is Parse over and over: up to what is no sample, or goes over the ring's edge,
// or is so short and so near to that edge, or to the head, that Stretch does not look whether it is one.
func sameStretch(t *testing.T, r *raw.Ring, off, stop, head uint64) (got int) {
	s := r.Stretch(off, stop, head)
	tooFar := head-off > r.Size()
	ringBuf, least := r.Layout() == raw.LayoutRingBuf, uint32(0)
	if r.TimeAt() >= 0 {
		least = uint32(r.TimeAt()) + 8
	}
	var rec raw.Record
	for ; s.Pos < s.Limit; got++ {
		if int64(stop-off) <= 0 || tooFar {
			t.Fatalf("%d records; the next is at the stop", got)
		}
		word, next, ok := s.View.Sample(s.Pos, s.End)
		if r.Parse(off, head, &rec); !ok {
			if rec.Kind == raw.Sample && rec.Len >= least && (ringBuf || rec.Size <= r.Size()-r.At(off)) {
				t.Fatalf("ended after %d in front of %+v", got, rec)
			}
			return got
		}
		ev := raw.Event{View: s.View, Word: word}
		if rec.Kind != raw.Sample || next-s.Pos != rec.Size || r.TimeAt() < 0 && ev.Time() != rec.Time || rec.Len < least || ev.Len() != int(rec.Len) || s.Pos != r.At(off) ||
			ev.Kind() != raw.Sample || ev.Late() || ev.Odd().Lost != 0 {
			t.Fatalf("record %d is %+v, where Parse finds %+v", got, ev, rec)
		}
		if !bytes.Equal(payload(r, rec), ev.Bytes()) {
			t.Fatalf("record %d is % x, where Parse finds % x", got, ev.Bytes(), payload(r, rec))
		}
		if again, size, ok := r.View().Find(r.At(off)); again != ev || size != rec.Size || !ok {
			t.Fatalf("%+v is found again as %+v, of %d bytes, %v", ev, again, size, ok)
		}
		prefetched = s.Prefetch(next) // nothing outside of the ring, or guarded would show it
		s.Pos = next
		off += rec.Size
	}
	if int64(stop-off) <= 0 || tooFar {
		return got
	}
	edge := r.Size() - r.At(off)
	if ringBuf {
		require.True(t, off == head || s.Pos >= r.Size(), "ended after %d", got)
		return got
	}
	if r.Parse(off, head, &rec); rec.Kind == raw.Sample && rec.Size <= edge && min(edge, head-off) >= 24 && (edge < r.Size() || got == 0) {
		t.Fatalf("ended after %d in front of %+v", got, rec)
	}
	return got
}

var prefetched uint64 // else the compiler would leave the loads out

// payload is a copy of a sample's, by the offsets that the kernel has.
func payload(r *raw.Ring, rec raw.Record) []byte {
	b, fixed := make([]byte, rec.Len), uint64(12)
	switch r.Layout() {
	case raw.LayoutRawTime:
		fixed = 20
	case raw.LayoutRingBuf:
		fixed = 8
	}
	r.Copy(b, rec.Off+fixed)
	return b
}

func TestStretchAgainstParse(t *testing.T) {
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
			if sameStretch(t, w.Raw(), off, stop, w.Head()) > 2 {
				full++
			}
			require.Zero(t, sameStretch(t, w.Raw(), off, stop, off+512+8), "the head is too far ahead")
		}
		require.Greater(t, full, 400)
	}
}
