package raw_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// layouts has all layouts, with the number of a sample's bytes before its payload.
var layouts = map[string]struct {
	layout raw.Layout
	before uint64
}{
	"RAW":      {raw.LayoutRaw, 12},
	"RAW|TIME": {raw.LayoutRawTime, 20},
	"RINGBUF":  {raw.LayoutRingBuf, 8},
}

var perfLayouts = []raw.Layout{raw.LayoutRaw, raw.LayoutRawTime}

// writer is a ringtest.Ring or a ringtest.RingBuf.
type writer interface {
	Raw() *raw.Ring
	Data() []byte
	Head() uint64
}

// write makes a ring with samples of one time.
func write(t *testing.T, layout raw.Layout, size int, start, time uint64, payloads ...[]byte) writer {
	if layout == raw.LayoutRingBuf {
		w := ringtest.NewRingBuf(size, start)
		for _, p := range payloads {
			require.NoError(t, w.Output(p))
		}
		return w
	}
	w := ringtest.New(size, layout, start)
	for _, p := range payloads {
		require.NoError(t, w.Output(time, p))
	}
	return w
}

// parse is Parse. It also checks that rec's former contents do not show.
func parse(t testing.TB, r *raw.Ring, off, head uint64) (rec raw.Record) {
	r.Parse(off, head, &rec)
	dirty := raw.Record{Kind: 77, Fault: 77, Len: 77, Off: 77, Size: 77, Time: 77, Lost: 77}
	r.Parse(off, head, &dirty)
	if rec.Kind != raw.Corrupt {
		dirty.Fault = 0
	}
	if rec.Kind != raw.Lost {
		dirty.Lost = 0
	}
	if rec != dirty { // require is slow
		t.Fatalf("%+v is %+v over another record", rec, dirty)
	}
	return rec
}

// payload copies a sample's payload, by the kernel's offsets.
func payload(r *raw.Ring, rec raw.Record) []byte {
	b, before := make([]byte, rec.Len), uint64(0)
	for _, l := range layouts {
		if l.layout == r.Layout() {
			before = l.before
		}
	}
	r.Copy(b, rec.Off+before)
	return b
}

// fielded returns a payload of n bytes with a time at 3 and a CPU at 11, as far as they fit.
func fielded(time uint64, cpu uint32, n int) []byte {
	b := binary.NativeEndian.AppendUint64([]byte{1, 2, 3}, time)
	b = binary.NativeEndian.AppendUint32(b, cpu)
	for len(b) < n {
		b = append(b, byte(len(b)))
	}
	return b[:n]
}

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// memory is size data bytes and a metadata page, all aligned to 8 bytes.
func memory(size int) (meta unsafe.Pointer, data []byte) {
	page, words := make([]uint64, 4096/8), make([]uint64, (size+7)/8+1)
	return unsafe.Pointer(unsafe.SliceData(page)), unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}

// random makes a ring of some records, and returns where they end and where it begins. One in three
// rings is damaged.
func random(rnd *rand.Rand, layout raw.Layout) (w writer, off uint64, ends []uint64) {
	const size = 256
	off = 8*rnd.Uint64N(64) - 512 // counters wrap, or do not
	time := uint64(100)
	if layout == raw.LayoutRingBuf {
		b := ringtest.NewRingBuf(size, off)
		for range 1 + rnd.IntN(9) {
			n := rnd.IntN(40)
			h, err := b.Reserve(n)
			if err != nil {
				break
			}
			time += rnd.Uint64N(4)
			h.Write(0, fielded(time, 1, n))
			switch rnd.IntN(16) {
			case 0:
			case 1, 2:
				h.Discard(0)
			default:
				h.Commit(0)
			}
			ends = append(ends, b.Head())
		}
		w = b
	} else {
		p := ringtest.New(size, layout, off)
		for range 1 + rnd.IntN(9) {
			time += rnd.Uint64N(4)
			switch rnd.IntN(24) {
			case 0:
				time -= 3
			case 1:
				p.Put(ringtest.TypeThrottle, make([]byte, 8*rnd.IntN(4)))
			}
			p.Output(time, ringtest.Payload(1, 12+rnd.IntN(40)))
			ends = append(ends, p.Head())
		}
		w = p
	}
	if rnd.IntN(3) == 0 { // a field of some record, perhaps
		at, c := rnd.IntN(size), []byte{0, 8, 9, 16, 24, 32, 64, 128, 255}[rnd.IntN(9)]
		for ; at < len(w.Data()); at += size {
			w.Data()[at] = c
		}
	}
	return w, off, append(ends, off)
}
