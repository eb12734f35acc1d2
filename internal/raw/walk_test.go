package raw_test

import (
	"bytes"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// slow is Samples in terms of Parse.
func slow(r *raw.Ring, off, head, floor, ceiling uint64) (marks []raw.Mark, stop uint64) {
	var rec raw.Record
	for off != head {
		r.Parse(off, head, &rec)
		if rec.Kind != raw.Sample || rec.Time < floor || rec.Time > ceiling {
			break
		}
		marks = append(marks, raw.Mark{Time: rec.Time, Off: off})
		floor = rec.Time
		off += rec.Size
	}
	return marks, off
}

func sameAsParse(t *testing.T, r *raw.Ring, off, head, floor, ceiling uint64) uint64 {
	before := []raw.Mark{{Time: 1, Off: 2}}
	marks, stop := r.Samples(off, head, floor, ceiling, before)
	want, at := slow(r, off, head, floor, ceiling)
	if r.Layout() == raw.LayoutRaw {
		want, at = nil, off
	}
	require.Equal(t, append(before[:1:1], want...), marks)
	require.Equal(t, at, stop)
	return stop
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
		if sameAsParse(t, w.Raw(), off, w.Head(), 98+rnd.Uint64N(4), time-rnd.Uint64N(2)) == w.Head() {
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

func FuzzSamples(f *testing.F) {
	room := guarded(f)
	meta, _ := memory(8)
	w := ringtest.New(256, raw.LayoutRawTime, 0)
	for i := range uint64(5) {
		w.Output(i, ringtest.Payload(i, 12+int(i)*9))
	}
	f.Add(w.Data(), uint64(0), w.Head(), uint64(0), uint64(9), true)
	f.Add(w.Data(), uint64(0), w.Head(), uint64(0), uint64(2), true)
	f.Add(w.Data(), uint64(math.MaxUint64-255), uint64(256), uint64(0), uint64(9), true)
	f.Add(w.Data(), uint64(8), uint64(1<<40), uint64(0), uint64(9), true)
	f.Add([]byte{9, 0, 0, 0, 0, 0, 8, 0}, uint64(0), uint64(8), uint64(0), uint64(9), true)
	f.Add(w.Data(), uint64(0), w.Head(), uint64(0), uint64(9), false)
	f.Fuzz(func(t *testing.T, b []byte, tail, ahead, floor, ceiling uint64, timed bool) {
		if len(b) < 8 {
			return
		}
		size := min(1<<(bits.Len(uint(len(b)))-1), len(room))
		layout := raw.LayoutRaw
		if timed {
			layout = raw.LayoutRawTime
		}
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		for _, at := range []int{0, len(room) - size} {
			data := room[at : at+size : at+size]
			copy(data, b)
			r, err := raw.New(meta, data, layout)
			require.NoError(t, err)
			require.Equal(t, layout, r.Layout())
			sameAsParse(t, r, tail&^7, (tail+ahead)&^7, floor, ceiling)
		}
	})
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

// A record that wraps in its ring does not in the copy.
func TestNewCopy(t *testing.T) {
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			w := ringtest.New(128, l.layout, 1<<32-32)
			require.NoError(t, w.Output(7, ringtest.Payload(5, 60)))
			r := w.Raw()
			rec := ringtest.Parse(r, r.Tail(), r.Head())
			require.Less(t, rec.First, rec.Len)
			_, data := memory(128)
			r.Copy(data[:rec.Size], rec.Off)
			c, err := raw.NewCopy(data, r.Layout())
			require.NoError(t, err)
			again := ringtest.Parse(c, 0, rec.Size)
			require.Equal(t, again.Len, again.First)
			require.Equal(t, rec.Len, again.Len)
			require.Equal(t, rec.Time, again.Time)
			head, _ := parts(c, again)
			id, err := ringtest.Check(head)
			require.NoError(t, err)
			require.Equal(t, uint64(5), id)
			_, err = raw.NewCopy(data[:100], r.Layout())
			require.Error(t, err)
		})
	}
}
