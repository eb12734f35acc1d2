package merge_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
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
				m.Scan(i, w.Head(), 1<<40)
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

// FuzzSpill does anything in any order to rings of arbitrary bytes: heads that jump or go back, spills,
// losses, rounds that are given up. It must come to an end, keep to its budget, and give everything back.
func FuzzSpill(f *testing.F) {
	const size = 128
	w := ringtest.New(size, raw.LayoutRawTime, 0)
	for _, time := range []uint64{5, 1, 4} {
		w.Output(time, ringtest.Payload(time, 12))
	}
	f.Add(w.Data(), []byte{0, 96, 3, 0, 1, 200, 2, 0, 3, 1, 4, 3, 5, 9, 1, 255})
	f.Add(w.Data(), []byte{0, 96, 0, 32, 6, 8, 1, 3, 2, 1, 3, 0, 4, 1, 7, 3, 0, 8, 3, 0, 2, 1, 5, 0, 3, 0})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, []byte{0, 24, 4, 3, 0, 16, 3, 0, 4, 1, 1, 9, 2, 1, 4, 1, 2, 9})
	f.Add(w.Data(), []byte{0, 32, 8, 62, 0, 32, 8, 63, 0, 40, 3, 0, 8, 63, 0, 40, 3, 0, 1, 255, 2, 9, 3, 0, 2, 9})
	f.Fuzz(func(t *testing.T, b, ops []byte) {
		const budget = 3 * size
		ws := []*ringtest.Ring{ringtest.New(size, raw.LayoutRawTime, 1<<32-64), ringtest.New(size, raw.LayoutRawTime, ^uint64(0)-63)}
		o := merge.Options{Spill: budget}
		if len(ops)%2 == 0 {
			o.Key = func(p merge.Payload) (uint64, bool) { return p.Uint64(4) }
		}
		m := merge.New([]*raw.Ring{ws[0].Raw(), ws[1].Raw()}, o, func(int, uint64) {})
		n := 0
		fill := func(w *ringtest.Ring) {
			if len(b) > 0 {
				n += copy(w.Data(), b[n%len(b):])
			}
		}
		last, items, bound := uint64(0), 0, 0
		take := func(limit int) {
			for ; limit > 0; limit-- {
				it := next(m)
				if it == nil {
					return
				}
				if it.Late != (it.Key < last) {
					t.Fatalf("%+v after %d", it, last)
				}
				if it.Kind == raw.Sample {
					sum := 0
					for _, c := range payload(it, ws[it.Ring].Raw()) {
						sum += int(c)
					}
					_ = sum
				}
				last = max(last, it.Key)
				if items++; items > bound {
					t.Fatalf("more than %d items", bound)
				}
			}
		}
		for ; len(ops) >= 2; ops = ops[2:] {
			w, i, v := ws[ops[1]%2], int(ops[1]%2), uint64(ops[1])
			switch ops[0] % 9 {
			case 0:
				w.SetHead(w.Head() + v&^7)
				m.Scan(i, w.Head(), 1<<60)
				bound += size/8 + 2
			case 1:
				m.End()
				m.Begin(v << (v % 50))
			case 2:
				take(int(v))
				m.End()
			case 3:
				m.Spill(i)
			case 4:
				m.Lose(i, v, v<<20)
				bound++
			case 5:
				fill(w)
			case 6:
				m.Scan(i, w.Head()-8*v, 1<<60)
				bound += 2
			case 7:
				if v == 77 {
					m.Abandon()
				}
				take(int(v % 4))
			case 8:
				w.SetHead(w.Head() + 1<<(v%64)&^7)
				m.Scan(i, w.Head(), 1<<60)
				bound += size/8 + 2
			}
			if m.Spilled() > budget {
				t.Fatalf("%d bytes spilled", m.Spilled())
			}
		}
		m.End()
		m.Begin(all)
		take(bound + 1)
		m.End()
		if m.Spilled() != 0 {
			t.Fatalf("%d bytes are not given back", m.Spilled())
		}
		for i := range ws {
			if m.Held(i) != 0 || m.Freed(i) != m.Scanned(i) {
				t.Fatalf("ring %d: %d held, %d bytes are not given back", i, m.Held(i), m.Scanned(i)-m.Freed(i))
			}
		}
	})
}
