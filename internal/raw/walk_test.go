package raw_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// stretch has the arguments of a walk.
type stretch struct {
	off, stop, head uint64
	floor, ceiling  uint64
	timeAt, cpuAt   int
}

// least returns the payload length that has room for all fields.
func (s stretch) least() (n uint64) {
	if s.timeAt >= 0 && s.timeAt <= math.MaxInt-8 {
		n = uint64(s.timeAt) + 8
	}
	if s.cpuAt >= 0 && s.cpuAt <= math.MaxInt-4 {
		n = max(n, uint64(s.cpuAt)+4)
	}
	return n
}

// found has the number of samples that each walk returned.
type found struct{ parse, events, samples int }

// agree requires that the walks over many records find the same as Parse, one by one.
func agree(t testing.TB, r *raw.Ring, data []byte, s stretch) (n found) {
	r.SetFields(s.timeAt, s.cpuAt)
	n.parse = agreeParse(t, r, s)
	n.samples = agreeSamples(t, r, s)
	n.events = agreeEvents(t, r, s)
	to := make([]byte, min(s.stop-s.off, r.Size()))
	r.Copy(to, s.off)
	for i, c := range to {
		if want := data[(s.off+uint64(i))&(r.Size()-1)]; c != want {
			t.Fatalf("byte %d of a copy from %d on is %#x, not %#x", i, s.off, c, want)
		}
	}
	return n
}

var sink uint64 // else the compiler would leave the loads out

// touch reads all fields of an event.
func touch(ev raw.Event) {
	for _, c := range ev.Bytes() {
		sink += uint64(c)
	}
	sink += ev.Time() + uint64(ev.CPU())
}

// agreeParse walks up to the head: it ends within size/8 steps, and each step advances.
func agreeParse(t testing.TB, r *raw.Ring, s stretch) (n int) {
	var alone raw.Single
	off, head := s.off, s.head
	for steps := uint64(0); off != head; steps++ {
		if steps >= r.Size()/8 {
			t.Fatalf("more than %d records", steps)
		}
		rec := parse(t, r, off, head)
		if rec.Size == 0 || rec.Size&7 != 0 || rec.Size > head-off || rec.Off != off ||
			rec.Kind == raw.Corrupt && (rec.Fault == raw.FaultNone || rec.Size != head-off) {
			t.Fatalf("%+v, %d before the head", rec, head-off)
		}
		if rec.Kind == raw.Sample {
			if uint64(rec.Len) > rec.Size {
				t.Fatalf("payload of %d bytes in %+v", rec.Len, rec)
			}
			touch(alone.Join(r, &rec))
			_, _, ok := r.View().Find(r.At(off))
			inOne := r.Layout() == raw.LayoutRingBuf || r.At(off)+rec.Size <= r.Size()
			if ok != (inOne && uint64(rec.Len) >= s.least()) {
				t.Fatalf("%+v is found: %v", rec, ok)
			}
			n++
		}
		off += rec.Size
	}
	return n
}

// same requires that an event is the sample that Parse finds, at the same place.
func same(t testing.TB, r *raw.Ring, s stretch, ev raw.Event, size uint64, rec raw.Record) {
	again, againSize, ok := r.View().Find(r.At(rec.Off))
	switch {
	case rec.Kind != raw.Sample, uint64(rec.Len) < s.least(), ev.Len() != int(rec.Len), size != rec.Size,
		s.timeAt < 0 && ev.Time() != rec.Time, ev.Kind() != raw.Sample, ev.Late(), *ev.Odd() != raw.Odd{},
		!bytes.Equal(payload(r, rec), ev.Bytes()):
		t.Fatalf("%+v where Parse finds %+v", ev, rec)
	case again != ev || againSize != rec.Size || !ok:
		t.Fatalf("%+v is found again as %+v, of %d bytes, %v", ev, again, againSize, ok)
	}
	touch(ev)
}

// agreeSamples stops in front of a record that is not a sample, or not within the times.
func agreeSamples(t testing.TB, r *raw.Ring, s stretch) (n int) {
	before := raw.Mark{Time: 1, Off: 2}
	marks, end := r.Samples(s.off, s.head, s.floor, s.ceiling, []raw.Mark{before})
	if marks[0] != before {
		t.Fatalf("%+v is what was %+v", marks[0], before)
	}
	timed := r.Layout() == raw.LayoutRawTime && s.timeAt < 0 || r.Layout() == raw.LayoutRingBuf && s.timeAt >= 0
	isNext := func(off, floor uint64) (m raw.Mark, size uint64, ok bool) {
		rec := parse(t, r, off, s.head)
		time, ok := rec.Time, true
		if s.timeAt >= 0 {
			time, ok = r.Payload8(&rec, s.timeAt)
		}
		ok = ok && timed && rec.Kind == raw.Sample && time >= floor && time <= s.ceiling
		return raw.Mark{Time: time, Off: off}, rec.Size, ok
	}
	off, floor := s.off, s.floor
	for _, m := range marks[1:] {
		want, size, ok := isNext(off, floor)
		if off == s.head || !ok || m != want {
			t.Fatalf("%+v, times %d to %d, where Parse finds %+v", m, floor, s.ceiling, want)
		}
		off, floor = off+size, m.Time
	}
	if off != end {
		t.Fatalf("ended at %d, but the last sample ends at %d", end, off)
	}
	if off != s.head {
		if m, _, ok := isNext(off, floor); ok {
			t.Fatalf("ended in front of %+v, times %d to %d", m, floor, s.ceiling)
		}
	}
	return len(marks) - 1
}

// agreeEvents goes on where it stopped, until it stops in front of a record that is neither a
// discarded one nor a sample long enough, which does not cross the edge of a perf ring.
func agreeEvents(t testing.TB, r *raw.Ring, s stretch) (all int) {
	into := make([]raw.Event, 5)
	for off := s.off; ; {
		n, discarded, next := r.Events(off, s.stop, s.head, into)
		if s.head-off > r.Size() {
			require.Equal(t, []any{0, 0, off}, []any{n, discarded, next})
			return all
		}
		begin, i := off, 0
		for off != next {
			rec := parse(t, r, off, s.head)
			if int64(s.stop-off) <= 0 || rec.Kind == raw.Corrupt {
				t.Fatalf("went to %d with stop at %d, past %+v", next, s.stop, rec)
			}
			if rec.Kind == raw.Discarded {
				discarded--
			} else {
				same(t, r, s, into[i], rec.Size, rec)
				if r.Offset(into[i], begin) != off {
					t.Fatalf("%+v is at %d, not %d", into[i], r.Offset(into[i], begin), off)
				}
				i++
			}
			off += rec.Size
		}
		require.Equal(t, []int{n, 0}, []int{i, discarded})
		all += n
		if off != begin && int64(s.stop-off) > 0 {
			continue
		}
		if int64(s.stop-off) > 0 {
			rec, edge := parse(t, r, off, s.head), r.Size()-r.At(off)
			inOne := r.Layout() == raw.LayoutRingBuf || rec.Size <= edge && min(edge, s.head-off) >= 24
			if rec.Kind == raw.Discarded || rec.Kind == raw.Sample && uint64(rec.Len) >= s.least() && inOne {
				t.Fatalf("ended after %d in front of %+v", all, rec)
			}
		}
		return all
	}
}

// guardedRings calls f with rings of the largest power of two of these bytes. They lie against
// unreadable memory: once on its left and once on its right.
func guardedRings(t testing.TB, room, b []byte, layout raw.Layout, f func(r *raw.Ring, data []byte)) {
	if len(b) < 64 {
		return
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	size := min(1<<(bits.Len(uint(len(b)))-1), len(room)/2)
	n := size
	if layout == raw.LayoutRingBuf {
		n = 2 * size
	}
	var positions [2]uint64
	for _, at := range []int{0, len(room) - n} {
		data := room[at : at+n : at+n]
		copy(data[copy(data, b[:size]):], b[:size])
		var r *raw.Ring
		var err error
		if layout == raw.LayoutRingBuf {
			r, err = raw.NewRingBuf(&positions[0], &positions[1], data)
		} else {
			meta, _ := memory(64)
			r, err = raw.New(meta, data, layout)
		}
		require.NoError(t, err)
		f(r, data)
	}
}

// Rings with records of all kinds, some of them damaged.
func TestWalksAgree(t *testing.T) {
	room := guarded(t)
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(5, 6))
			var sum found
			for range 2000 {
				w, off, ends := random(rnd, l.layout)
				s := stretch{off: off, stop: ends[rnd.IntN(len(ends))], head: w.Head(), timeAt: -1, cpuAt: -1}
				if s.floor, s.ceiling = 98+rnd.Uint64N(4), 100+rnd.Uint64N(24); rnd.IntN(2) == 0 {
					s.floor, s.ceiling = 0, math.MaxUint64
				}
				switch rnd.IntN(8) {
				case 0:
					s.timeAt, s.cpuAt = rnd.IntN(12)-1, rnd.IntN(12)-1
				case 1:
					s.head += 256 // too far
				case 2, 3, 4:
					if l.layout == raw.LayoutRingBuf {
						s.timeAt = 3 * rnd.IntN(2)
					}
				}
				guardedRings(t, room, w.Data()[:256], l.layout, func(r *raw.Ring, data []byte) {
					n := agree(t, r, data, s)
					sum.parse += min(n.parse/3, 1)
					sum.events += min(n.events/3, 1)
					sum.samples += min(n.samples/3, 1)
				})
			}
			t.Logf("%+v", sum)
			require.Greater(t, min(sum.parse, sum.events), 200)
			require.Equal(t, l.layout != raw.LayoutRaw, sum.samples > 200)
		})
	}
}

// FuzzWalk walks rings of arbitrary bytes in all ways, between arbitrary offsets. Walks read
// nothing outside the ring. More seeds are in testdata/fuzz.
func FuzzWalk(f *testing.F) {
	room := guarded(f)
	add := func(b []byte, off, ahead uint64, layout raw.Layout) {
		f.Add(b, off, ahead, ahead, uint8(layout), uint64(0), uint64(math.MaxUint64), -1, -1)
	}
	header := func(size uint16) []byte {
		b := binary.NativeEndian.AppendUint32(nil, ringtest.TypeSample)
		b = binary.NativeEndian.AppendUint16(append(b, 0, 0), size)
		return append(b, make([]byte, 120)...)
	}
	for _, size := range []uint16{0, 7, 8, 12, 16, 24, 64, 65528} {
		add(append(header(size), 255, 255, 255, 255, 0, 0, 0, 0), 8, 16, raw.Layout(size/8%2))
	}
	for _, l := range layouts {
		rnd := rand.New(rand.NewPCG(5, 6))
		for range 20 {
			w, off, _ := random(rnd, l.layout)
			b, ahead := w.Data()[:256], w.Head()-off
			add(b, off, ahead, l.layout)
			add(b, 3, 1<<40, l.layout)
			for _, at := range [][2]int{{3, 11}, {math.MaxInt, math.MaxInt}} {
				f.Add(b, off, ahead, uint64(40), uint8(l.layout), uint64(101), uint64(103), at[0], at[1])
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, off, ahead, stop uint64, layout uint8, floor, ceiling uint64, timeAt, cpuAt int) {
		off, ahead = off&^7, ahead&^7
		if stop &^= 7; ahead != 0 {
			stop %= ahead + 1
		} else {
			stop = 0
		}
		s := stretch{off, off + stop, off + ahead, floor, ceiling, timeAt, cpuAt}
		guardedRings(t, room, b, raw.Layout(layout%3), func(r *raw.Ring, data []byte) { agree(t, r, data, s) })
	})
}
