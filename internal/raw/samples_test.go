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

// sameSamples requires that Samples is Parse over and over: up to what is no sample, or not within the times.
func sameSamples(t *testing.T, r *raw.Ring, off, head, floor, ceiling uint64) (end uint64) {
	before := raw.Mark{Time: 1, Off: 2}
	marks, end := r.Samples(off, head, floor, ceiling, []raw.Mark{before})
	if marks[0] != before {
		t.Fatalf("%+v is what was %+v", marks[0], before)
	}
	var rec raw.Record
	for _, m := range marks[1:] {
		if off == head {
			t.Fatal("a sample behind the head")
		}
		r.Parse(off, head, &rec)
		if time, ok := timeOf(r, &rec); !ok || m != (raw.Mark{Time: time, Off: rec.Off}) || m.Time < floor || m.Time > ceiling {
			t.Fatalf("%+v, times %d to %d, where Parse finds %+v", m, floor, ceiling, rec)
		}
		floor = m.Time
		off += rec.Size
	}
	if off != end {
		t.Fatalf("ended at %d, but the last sample ends at %d", end, off)
	}
	if r.Layout() == raw.LayoutRaw || off == head {
		return end
	}
	r.Parse(off, head, &rec)
	if time, ok := timeOf(r, &rec); ok && time >= floor && time <= ceiling {
		t.Fatalf("ended in front of %+v, times %d to %d", rec, floor, ceiling)
	}
	return end
}

// timeOf is the time of a sample, in its payload in a ring buffer.
func timeOf(r *raw.Ring, rec *raw.Record) (time uint64, ok bool) {
	if r.Layout() != raw.LayoutRingBuf || rec.Kind != raw.Sample {
		return rec.Time, rec.Kind == raw.Sample
	}
	return r.Payload8(rec, r.TimeAt())
}

func TestSamplesAgainstParse(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	ends := 0
	for range 4000 {
		w := ringtest.New(256, raw.LayoutRawTime, math.MaxUint64-511+8*rnd.Uint64N(64))
		off, time := w.Head(), uint64(100)
		for range 1 + rnd.IntN(9) {
			time += rnd.Uint64N(4)
			switch rnd.IntN(24) {
			case 0:
				time -= 3
			case 1:
				w.Put(ringtest.TypeThrottle, make([]byte, 8*rnd.IntN(4)))
			}
			w.Output(time, ringtest.Payload(1, 12+rnd.IntN(40)))
		}
		if rnd.IntN(3) == 0 { // a field of some record, perhaps
			w.Data()[rnd.IntN(256)] = []byte{0, 8, 9, 16, 24, 32, 255}[rnd.IntN(7)]
		}
		if sameSamples(t, w.Raw(), off, w.Head(), 98+rnd.Uint64N(4), time-rnd.Uint64N(2)) == w.Head() {
			ends++
		}
	}
	require.Greater(t, ends, 400)
}

func TestSamplesStopsAtFloorAndCeiling(t *testing.T) {
	w := ringtest.New(256, raw.LayoutRawTime, 0)
	for _, time := range []uint64{10, 10, 20, 19} {
		require.NoError(t, w.Output(time, ringtest.Payload(1, 12)))
	}
	r := w.Raw()
	for _, c := range []struct{ floor, ceiling, stop uint64 }{
		{10, 20, 96}, {11, 20, 0}, {10, 19, 64}, {10, 10, 64}, {0, 9, 0}, {0, math.MaxUint64, 96},
	} {
		_, stop := r.Samples(0, w.Head(), c.floor, c.ceiling, nil)
		require.Equal(t, c.stop, stop, "%+v", c)
	}
	_, stop := r.Samples(0, 256+8, 0, math.MaxUint64, nil)
	require.Zero(t, stop, "the head is too far ahead")
}

func TestCopy(t *testing.T) {
	w := ringtest.New(64, raw.LayoutRaw, 0)
	for i := range w.Data() {
		w.Data()[i] = byte(i)
	}
	twice := append(bytes.Clone(w.Data()), w.Data()...)
	for n := 0; n <= 64; n++ {
		for off := uint64(0); off < 64; off++ {
			to := make([]byte, n)
			w.Raw().Copy(to, math.MaxUint64-63+off)
			require.Equal(t, twice[off:int(off)+n], to)
		}
	}
}

// A record that goes over its ring's edge does not in a copy.
func TestNewCopy(t *testing.T) {
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			w := ringtest.New(128, l.layout, 1<<32-32)
			require.NoError(t, w.Output(7, ringtest.Payload(5, 60)))
			r := w.Raw()
			r.SetCPU(3)
			rec := ringtest.Parse(r, r.Tail(), r.Head())
			_, _, ok := r.View().Find(r.At(rec.Off))
			require.False(t, ok)
			words := make([]uint64, 128/8)
			r.CopyWords(words, rec.Off, rec.Size)
			c := raw.NewCopy(r, words)
			again := ringtest.Parse(c, 0, rec.Size)
			require.Equal(t, rec.Len, again.Len)
			require.Equal(t, rec.Time, again.Time)
			ev, size, ok := c.View().Find(0)
			require.True(t, ok)
			require.Equal(t, rec.Size, size)
			require.Equal(t, rec.Time, ev.Time())
			require.Equal(t, 3, ev.CPU())
			id, err := ringtest.Check(ev.Bytes())
			require.NoError(t, err)
			require.Equal(t, uint64(5), id)
		})
	}
}
