package raw_test

import (
	"encoding/binary"
	"math"
	"math/bits"
	"runtime/debug"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// Seeds beyond these are in testdata/fuzz.

// FuzzParse walks rings of arbitrary bytes from an arbitrary tail to an
// arbitrary head. The walk must end within size/8 steps, come forward by each, and read nothing outside
// the ring, which lies against unreadable memory, once on its left and once on its right.
func FuzzParse(f *testing.F) {
	room := guarded(f)
	w := records()
	f.Add(w.Data(), uint64(0), w.Head(), true)
	f.Add(w.Data(), uint64(0), w.Head(), false)
	f.Add(w.Data(), uint64(math.MaxUint64-199), uint64(256), true)
	header := func(size uint16) []byte {
		b := binary.NativeEndian.AppendUint32(nil, ringtest.TypeSample)
		return binary.NativeEndian.AppendUint16(append(b, 0, 0), size)
	}
	for _, size := range []uint16{0, 7, 8, 12, 16, 24, 64, 65528} {
		f.Add(append(header(size), 255, 255, 255, 255, 0, 0, 0, 0), uint64(8), uint64(16), size%16 == 0)
	}
	f.Add(w.Data(), uint64(3), uint64(1<<40), true)
	f.Add([]byte{9, 0, 0, 0, 0, 0, 8, 0}, uint64(0), uint64(8), true)

	f.Fuzz(func(t *testing.T, b []byte, tail, ahead uint64, timed bool) {
		between(t, room, b, timed, func(r *raw.Ring, data []byte) { walk(t, r, tail&^7, (tail+ahead)&^7) })
	})
}

// FuzzWalk holds the walks that take many records at once against Parse, on the same memory as FuzzParse does:
// Stretch up to any stop, Samples within any times, and Copy.
func FuzzWalk(f *testing.F) {
	room := guarded(f)
	w := records()
	f.Add(w.Data(), uint64(0), w.Head(), w.Head(), true, uint64(0), uint64(10))
	f.Add(w.Data(), uint64(0), w.Head(), uint64(40), false, uint64(2), uint64(3))
	f.Add(w.Data(), uint64(math.MaxUint64-199), uint64(256), uint64(200), true, uint64(0), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, b []byte, off, ahead, stop uint64, timed bool, floor, ceiling uint64) {
		off, ahead = off&^7, ahead&^7
		if ahead != 0 {
			stop = stop % (ahead + 1) &^ 7
		} else {
			stop = 0
		}
		between(t, room, b, timed, func(r *raw.Ring, data []byte) {
			sameStretch(t, r, off, off+stop, off+ahead)
			sameSamples(t, r, off, off+ahead, floor, ceiling)
			to := make([]byte, min(stop, r.Size()))
			r.Copy(to, off)
			for i, c := range to {
				if want := data[(off+uint64(i))&(r.Size()-1)]; c != want {
					t.Fatalf("byte %d of a copy from %d on is %#x, not %#x", i, off, c, want)
				}
			}
		})
	})
}

// records is a ring with five samples, the last of which wraps.
func records() *ringtest.Ring {
	w := ringtest.New(256, raw.LayoutRawTime, 0)
	for i := range uint64(5) {
		w.Output(i, ringtest.Payload(i, 12+int(i)*9))
	}
	return w
}

// between calls f with a ring of these bytes, as many of them as are a power of two, that lies against unreadable memory: once on
// its left and once on its right.
func between(t *testing.T, room, b []byte, timed bool, f func(r *raw.Ring, data []byte)) {
	if len(b) < 64 {
		return
	}
	meta, _ := memory(64)
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
		f(r, data)
	}
}

var sink byte

// walk reads everything from tail to head, and all that the records refer to.
func walk(t *testing.T, r *raw.Ring, tail, head uint64) {
	var alone raw.Single
	var rec raw.Record // used again and again, as its users do
	for steps := uint64(0); tail != head; steps++ {
		if steps >= r.Size()/8 {
			t.Fatalf("more than %d records", steps)
		}
		r.Parse(tail, head, &rec)
		if rec.Size == 0 || rec.Size&7 != 0 || rec.Size > head-tail {
			t.Fatalf("record of %d bytes, %d before the head", rec.Size, head-tail)
		}
		if rec.Off != tail || rec.Kind == raw.Corrupt && (rec.Fault == raw.FaultNone || rec.Size != head-tail) {
			t.Fatalf("%+v, %d before the head", rec, head-tail)
		}
		if rec.Kind == raw.Sample {
			if uint64(rec.Len) > rec.Size {
				t.Fatalf("payload of %d bytes in %+v", rec.Len, rec)
			}
			for _, c := range alone.Join(r, &rec).Bytes() {
				sink += c
			}
		}
		tail += rec.Size
	}
}
