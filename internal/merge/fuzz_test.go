package merge_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// FuzzMerge merges rings of arbitrary bytes, up to arbitrary heads, and writes
// arbitrary bytes over them between scan and delivery. It must come to an end, with
// keys in order except those marked late, and with every byte given back.
func FuzzMerge(f *testing.F) {
	const size = 128
	seed := func(times ...uint64) []byte {
		var b []byte
		for i := range 3 {
			w := ringtest.New(size, raw.LayoutRawTime, 0)
			for _, time := range times {
				w.Output(time+uint64(i), ringtest.Payload(time, 12))
			}
			b = append(b, w.Data()...)
		}
		return b
	}
	f.Add(seed(1, 2, 3), seed(3, 2, 1), uint16(96), uint16(64), uint16(96), uint64(2), false)
	f.Add(seed(5, 1, 4), seed(1, 9, 1), uint16(96), uint16(96), uint16(128), uint64(4), true)
	f.Add(seed(1<<41, 3), []byte{2, 0, 0, 0, 0, 0, 24, 0}, uint16(96), uint16(8), uint16(4000), uint64(1<<40), true)
	f.Add(seed(7, 6, 5), []byte{77, 0, 0, 0, 0, 0, 64, 0}, uint16(96), uint16(96), uint16(96), uint64(0), true)
	f.Add([]byte{9, 0, 0, 0, 0, 0, 0, 0}, []byte{}, uint16(8), uint16(16), uint16(24), uint64(100), false)

	f.Fuzz(func(t *testing.T, first, second []byte, a, b, c uint16, watermark uint64, over bool) {
		m, ws := unchecked(size, 0, 1<<32-64, ^uint64(0)-63)
		fill := func(b []byte) {
			for _, w := range ws {
				n := copy(w.Data(), b)
				b = b[n:]
			}
		}
		ahead := func(n ...uint16) (bytes int) {
			for i, w := range ws {
				w.SetHead(w.Head() + uint64(n[i]&^7))
				bytes += int(n[i])
				m.Scan(i, w.Head(), 1<<40, 0)
			}
			return bytes
		}
		last, clean := uint64(0), true
		check := func(got []out) {
			for _, it := range got {
				if it.late != (it.key < last) && clean {
					t.Fatalf("%+v after %d", it, last)
				}
				if it.key < last && !it.late {
					t.Fatalf("%+v after %d is not marked late", it, last)
				}
				last = max(last, it.key)
			}
		}
		fill(first)
		bytes := ahead(a, b, c)
		if over {
			clean = false // what is written over may be marked late for a time that has changed
			fill(second)
		}
		check(drain(t, m, min(watermark, all), bytes))
		bytes += ahead(c, a, b)
		check(drain(t, m, min(watermark, all)/2, bytes))
		check(drain(t, m, all, bytes))
		for i, w := range ws {
			if w.Tail() != w.Head() {
				t.Fatalf("ring %d: %d bytes are not given back", i, w.Head()-w.Tail())
			}
		}
		if key, held := m.Earliest(); held {
			t.Fatalf("something of time %d is held in empty rings", key)
		}
	})
}
