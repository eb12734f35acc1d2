package raw_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

func TestNewRingBufTakesTwicePowersOfTwo(t *testing.T) {
	var positions [2]uint64
	for _, size := range []int{0, 8, 64, 126, 127, 129, 192, 3 * 4096} {
		_, data := memory(size)
		_, err := raw.NewRingBuf(&positions[0], &positions[1], data)
		require.ErrorContains(t, err, "power of two", size)
	}
	_, data := memory(256)
	r, err := raw.NewRingBuf(&positions[0], &positions[1], data)
	require.NoError(t, err)
	require.Equal(t, []any{uint64(128), -1, -1, raw.LayoutRingBuf}, []any{r.Size(), r.CPU(), r.TimeAt(), r.Layout()})
	_, err = raw.NewRingBuf(&positions[0], &positions[1], data[4:132])
	require.ErrorContains(t, err, "aligned")
	half := (*uint64)(unsafe.Add(unsafe.Pointer(&positions), 4))
	_, err = raw.NewRingBuf(half, &positions[1], data)
	require.ErrorContains(t, err, "aligned")
	_, err = raw.NewRingBuf(&positions[1], half, data)
	require.ErrorContains(t, err, "aligned")
}

// fielded is a payload with a time at 3 and a CPU at 11, as far as n bytes have room.
func fielded(time uint64, cpu uint32, n int) []byte {
	b := binary.NativeEndian.AppendUint64([]byte{1, 2, 3}, time)
	b = binary.NativeEndian.AppendUint32(b, cpu)
	for len(b) < n {
		b = append(b, byte(len(b)))
	}
	return b[:n]
}

// Records of each length lie at each offset of a small ring, over its edge too, with positions that start anywhere. All ways to look at
// one give the same.
func TestRingBufSampleAtEveryOffset(t *testing.T) {
	const size, time, cpu = 128, 0x1122334455667788, 7
	for _, n := range []int{0, 1, 7, 8, 9, 10, 11, 14, 15, 16, 40, 112} {
		for at := uint64(0); at < size; at += 8 {
			for _, lap := range []uint64{0, 5 * size, 1<<32 - size, math.MaxUint64 - size + 1} {
				w := ringtest.NewRingBuf(size, lap+at)
				payload := fielded(time, cpu, n)
				require.NoError(t, w.Output(payload))
				r := w.Raw()
				r.SetCPU(4)
				r.SetFields(3, 11)
				rec := ringtest.Parse(r, r.Tail(), r.Head())
				require.Equal(t, raw.Record{Kind: raw.Sample, Len: uint32(n), Off: lap + at, Size: uint64(8 + (n+7)&^7)}, rec)

				wantTime, wantCPU := uint64(0), 4
				if n >= 11 {
					wantTime = time
				}
				if n >= 15 {
					wantCPU = cpu
				}
				same := func(ev raw.Event, how string) {
					got := []any{ev.Kind(), ev.Time(), ev.CPU(), ev.Len(), ev.Late(), *ev.Odd()}
					require.Equal(t, []any{raw.Sample, wantTime, wantCPU, n, false, raw.Odd{}}, got, how)
					require.Equal(t, string(payload), string(ev.Bytes()), how)
				}
				var alone, private raw.Single
				same(alone.Join(r, &rec), "joined")
				words := make([]uint64, 128/8, 128/8+1)
				r.CopyWords(words, rec.Off, rec.Size)
				c := raw.NewCopy(r, words)
				again := ringtest.Parse(c, 0, rec.Size)
				same(new(raw.Single).Join(c, &again), "joined from a copy")

				ev, recSize, ok := r.View().Find(r.At(rec.Off))
				require.Equal(t, n >= 15, ok, "long enough for all fields")
				copied, _, inCopy := c.View().Find(0)
				require.Equal(t, ok, inCopy)
				var evs [3]raw.Event
				got, discarded, next := r.Events(r.Tail(), r.Head(), r.Head(), evs[:])
				time, has := r.Payload8(&rec, 3)
				require.Equal(t, n >= 11, has)
				require.Equal(t, wantTime, time)
				if !ok {
					require.Equal(t, []any{0, 0, r.Tail()}, []any{got, discarded, next})
					continue
				}
				same(ev, "found")
				same(copied, "found in a copy")
				same(private.Private(ev), "private")
				require.Equal(t, rec.Size, recSize)
				require.Equal(t, []any{1, 0, r.Head()}, []any{got, discarded, next})
				require.Equal(t, ev, evs[0])
				require.Equal(t, rec.Off, r.Offset(ev, r.Tail()))
				require.Equal(t, &w.Data()[(at+8)%256], &ev.Bytes()[0], "in its place")
				marks, end := r.Samples(r.Tail(), r.Head(), 0, math.MaxUint64, nil)
				require.Equal(t, []raw.Mark{{Time: wantTime, Off: rec.Off}}, marks)
				require.Equal(t, r.Head(), end)
			}
		}
	}
}

// Without fields there is neither time nor CPU.
func TestRingBufWithoutFields(t *testing.T) {
	w := ringtest.NewRingBuf(128, 0)
	require.NoError(t, w.Output(nil))
	ev, size, ok := w.Raw().View().Find(0)
	require.True(t, ok)
	require.Equal(t, []any{uint64(8), uint64(0), -1, 0}, []any{size, ev.Time(), ev.CPU(), ev.Len()})
	require.Equal(t, 1, sameStretch(t, w.Raw(), 0, 8, 8))
}

// Reserved, committed, discarded: what each way to look finds of it.
func TestRingBufStates(t *testing.T) {
	w := ringtest.NewRingBuf(256, 256-24)
	r := w.Raw()
	reserve := func() ringtest.Record {
		h, err := w.Reserve(12)
		require.NoError(t, err)
		h.Write(0, fielded(5, 1, 12))
		return h
	}
	a, b, c := reserve(), reserve(), reserve()
	kinds := func() (k [3]raw.Kind) {
		for i, h := range []ringtest.Record{a, b, c} {
			rec := ringtest.Parse(r, h.Off, w.Head())
			require.Equal(t, uint64(24), rec.Size)
			k[i] = rec.Kind
			_, _, ok := r.View().Find(r.At(h.Off))
			require.Equal(t, rec.Kind == raw.Sample, ok)
			require.Equal(t, rec.Kind == raw.Busy, r.Busy(h.Off, w.Head()))
		}
		return k
	}
	events := func(from, stop uint64) [3]int {
		var into [3]raw.Event
		n, discarded, next := r.Events(from, stop, w.Head(), into[:])
		return [3]int{n, discarded, int(next-a.Off) / 24}
	}
	require.Equal(t, [3]raw.Kind{raw.Busy, raw.Busy, raw.Busy}, kinds())
	require.Equal(t, [3]int{0, 0, 0}, events(a.Off, w.Head()))
	require.True(t, a.Commit(0), "the reader has caught up with it")
	require.False(t, c.Commit(0))
	require.Equal(t, [3]raw.Kind{raw.Sample, raw.Busy, raw.Sample}, kinds())
	require.Equal(t, [3]int{1, 0, 1}, events(a.Off, w.Head()))
	b.Discard(0)
	require.Equal(t, [3]raw.Kind{raw.Sample, raw.Discarded, raw.Sample}, kinds())
	require.Equal(t, [3]int{2, 1, 3}, events(a.Off, w.Head()))
	require.Equal(t, [3]int{1, 1, 2}, events(a.Off, c.Off), "one that is discarded just before the stop")
	require.Equal(t, [3]int{1, 0, 1}, events(a.Off, a.Off+8), "begins before the stop")
	require.Equal(t, [3]int{0, 0, 0}, events(a.Off, a.Off))
	require.False(t, r.Busy(w.Head(), w.Head()))
}

// A length that is not believed spans everything up to the head.
func TestRingBufCorrupt(t *testing.T) {
	for name, c := range map[string]struct {
		length uint32
		head   uint64
		fault  raw.Fault
	}{
		"beyond the head": {17, 24, raw.FaultBeyondHead}, "busy, beyond the head": {17 | ringtest.RingBufBusy, 24, raw.FaultBeyondHead},
		"discarded, beyond the head": {17 | ringtest.RingBufDiscarded, 24, raw.FaultBeyondHead},
		"longest":                    {1<<30 - 1, 128, raw.FaultBeyondHead}, "longer than the ring": {121, 128, raw.FaultBeyondHead},
		"head too far": {1, 136, raw.FaultHead}, "head went back": {1, math.MaxUint64 - 7, raw.FaultHead},
	} {
		t.Run(name, func(t *testing.T) {
			w := ringtest.NewRingBuf(128, 64)
			w.PutHeader(c.length, c.head)
			r := w.Raw()
			require.Equal(t, raw.Record{Kind: raw.Corrupt, Fault: c.fault, Off: 64, Size: c.head}, ringtest.Parse(r, 64, 64+c.head))
			var evs [2]raw.Event
			n, discarded, next := r.Events(64, 64+c.head, 64+c.head, evs[:])
			require.Equal(t, []any{0, 0, uint64(64)}, []any{n, discarded, next})
			_, _, ok := r.View().Find(r.At(64))
			require.Equal(t, c.length < 128, ok, "in the memory, which is all that Find knows of")
		})
	}
}

// Sizes near 2 GiB have positions of 32 bits. The memory is not touched but for some pages.
func TestLargestRingBuf(t *testing.T) {
	size := uint64(1) << 31
	data := reserved(t, int(2*size))
	positions := [2]uint64{3<<32 - 16, 3<<32 + 1<<20} // consumer, producer
	r, err := raw.NewRingBuf(&positions[0], &positions[1], data)
	require.NoError(t, err)
	r.SetFields(4, 0)
	binary.NativeEndian.PutUint32(data[size-16:], 1<<20)
	binary.NativeEndian.PutUint32(data[size-8:], 3)
	binary.NativeEndian.PutUint64(data[size-4:], 99)
	data[size-8+1<<20-1] = 77
	rec := ringtest.Parse(r, r.Tail(), r.Head())
	require.Equal(t, raw.Record{Kind: raw.Sample, Len: 1 << 20, Off: 3<<32 - 16, Size: 1<<20 + 8}, rec)
	var evs [2]raw.Event
	n, _, next := r.Events(r.Tail(), r.Tail()+8, r.Head(), evs[:])
	require.Equal(t, 1, n)
	require.Equal(t, r.Tail()+rec.Size, next)
	ev := evs[0]
	require.Equal(t, []any{uint64(99), 3, 1 << 20, byte(77)}, []any{ev.Time(), ev.CPU(), ev.Len(), ev.Bytes()[1<<20-1]})
	require.Equal(t, r.Tail(), r.Offset(ev, r.Tail()))
	_, err = raw.NewRingBuf(&positions[0], &positions[1], reserved(t, int(4*size)))
	require.ErrorContains(t, err, "power of two", "max_entries is a u32")
}

// A perf ring's samples with fields come by Events, where they are long enough; others have what the record says.
func TestFieldsInPerfRings(t *testing.T) {
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			for at := uint64(0); at < 256; at += 8 {
				w := ringtest.New(256, l.layout, 1<<32-256+at)
				require.NoError(t, w.Output(1, fielded(100, 9, 28)))
				require.NoError(t, w.Output(2, fielded(200, 9, 12)))
				require.NoError(t, w.Output(3, fielded(300, 9, 4)))
				r := w.Raw()
				r.SetFields(3, -1)
				own := uint64(0)
				if l.layout == raw.LayoutRawTime {
					own = 3
				}
				var got []uint64
				var alone raw.Single
				for off := r.Tail(); off != r.Head(); {
					if s := r.Stretch(off, r.Head(), r.Head()); s.Pos < s.Limit {
						if word, next, ok := s.View.Sample(s.Pos, s.End); ok {
							got = append(got, raw.Event{View: s.View, Word: word}.Time())
							off += next - s.Pos
							continue
						}
					}
					{
						rec := ringtest.Parse(r, off, r.Head())
						ev := alone.Join(r, &rec)
						require.Equal(t, -1, min(ev.CPU(), -1))
						got = append(got, ev.Time())
						off += rec.Size
					}
				}
				require.Equal(t, []uint64{100, 200, own}, got, "at %d", at)
				marks, _ := r.Samples(r.Tail(), r.Head(), 0, math.MaxUint64, nil)
				require.Empty(t, marks)
			}
		})
	}
}

// sameEvents requires that Events is Parse over and over, and Stretch and Samples too, in a ring buffer.
func sameEvents(t *testing.T, r *raw.Ring, off, stop, head uint64, room int) (events int) {
	sameStretch(t, r, off, stop, head)
	into := make([]raw.Event, room)
	n, discarded, next := r.Events(off, stop, head, into)
	least := uint32(0)
	if r.TimeAt() >= 0 {
		least = uint32(r.TimeAt()) + 8
	}
	if head-off > r.Size() {
		require.Equal(t, []any{0, 0, off}, []any{n, discarded, next})
		return 0
	}
	var rec raw.Record
	at := off
	for i := 0; at != next; at += rec.Size {
		if r.Parse(at, head, &rec); int64(stop-at) <= 0 || rec.Size > head-at {
			t.Fatalf("went to %d with stop at %d, head at %d", next, stop, head)
		}
		if rec.Kind == raw.Discarded {
			discarded--
			continue
		}
		ev := into[i]
		again, size, ok := r.View().Find(r.At(at))
		if rec.Kind != raw.Sample || ev.Len() != int(rec.Len) || r.Offset(ev, off) != at || !ok || again != ev || size != rec.Size {
			t.Fatalf("%+v at %d, where Parse finds %+v", ev, at, rec)
		}
		for _, c := range ev.Bytes() {
			sink += c
		}
		sink += byte(ev.Time()) + byte(ev.CPU())
		i++
		events++
	}
	require.Equal(t, n, events)
	require.Zero(t, discarded)
	if n < room && int64(stop-at) > 0 {
		if r.Parse(at, head, &rec); rec.Kind == raw.Discarded || rec.Kind == raw.Sample && rec.Len >= least {
			t.Fatalf("ended after %d in front of %+v", n, rec)
		}
	}
	return events
}

func TestEventsAgainstParse(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	full := 0
	for range 4000 {
		w := ringtest.NewRingBuf(512, math.MaxUint64-1023+8*rnd.Uint64N(128))
		off, ends := w.Head(), []uint64{w.Head()}
		for range 1 + rnd.IntN(12) {
			h, err := w.Reserve(rnd.IntN(40))
			if err != nil {
				break
			}
			switch rnd.IntN(16) {
			case 0:
			case 1, 2:
				h.Discard(0)
			default:
				h.Commit(0)
			}
			ends = append(ends, w.Head())
		}
		if rnd.IntN(3) == 0 { // a field of some record, perhaps
			p := rnd.IntN(512)
			c := []byte{0, 8, 9, 64, 128, 255}[rnd.IntN(6)]
			w.Data()[p], w.Data()[p+512] = c, c
		}
		r := w.Raw()
		r.SetFields(rnd.IntN(12)-1, -1)
		if sameEvents(t, r, off, ends[rnd.IntN(len(ends))], w.Head(), 1+rnd.IntN(8)) > 2 {
			full++
		}
		sameSamples(t, r, off, w.Head(), rnd.Uint64(), math.MaxUint64)
	}
	require.Greater(t, full, 400)
}

// FuzzRingBuf walks ring buffers of arbitrary bytes, as FuzzParse does, in all ways.
func FuzzRingBuf(f *testing.F) {
	room := guarded(f)
	w := ringtest.NewRingBuf(128, 0)
	for i := range 4 {
		w.Output(fielded(uint64(i), 1, 8*i))
	}
	f.Add(w.Data(), uint64(0), w.Head(), w.Head(), -1, -1)
	f.Add(w.Data(), uint64(math.MaxUint64-199), uint64(256), uint64(64), 3, 11)
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0}, uint64(8), uint64(16), uint64(16), 0, 0)
	f.Add([]byte{56, 0, 0, 64, 0, 0, 0, 0}, uint64(0), uint64(64), uint64(64), math.MaxInt, math.MaxInt)
	f.Fuzz(func(t *testing.T, b []byte, off, ahead, stop uint64, timeAt, cpuAt int) {
		off, ahead = off&^7, ahead&^7
		if stop &^= 7; ahead != 0 {
			stop %= ahead + 1
		} else {
			stop = 0
		}
		var positions [2]uint64
		for size := 64; 2*size <= len(room); size *= 4 {
			for _, at := range []int{0, len(room) - 2*size} {
				data := room[at : at+2*size : at+2*size]
				copy(data, b)
				copy(data[size:], data[:size])
				r, err := raw.NewRingBuf(&positions[0], &positions[1], data)
				require.NoError(t, err)
				r.SetFields(timeAt, cpuAt)
				walk(t, r, off, off+ahead)
				if cpuAt < 0 {
					sameEvents(t, r, off, off+stop, off+ahead, 5)
				} else {
					for _, ev := range events(r, off, off+stop, off+ahead) {
						sink += byte(ev.Time()) + byte(ev.CPU())
					}
				}
				sameSamples(t, r, off, off+ahead, 0, math.MaxUint64)
			}
		}
	})
}

func events(r *raw.Ring, off, stop, head uint64) []raw.Event {
	into := make([]raw.Event, 8)
	n, _, _ := r.Events(off, stop, head, into)
	return into[:n]
}
