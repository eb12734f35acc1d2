package raw_test

import (
	"encoding/binary"
	"math"
	"testing"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// Samples of each length lie at each offset of a small ring, across its edge too, with counters
// that start anywhere and pass powers of two, with and without fields. All ways to read one agree.
func TestSampleAtEveryOffset(t *testing.T) {
	const size, own = 128, 0x1122334455667788
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1, 7, 8, 9, 10, 11, 14, 15, 16, 40, 100} {
				for at := uint64(0); at < size; at += 8 {
					for _, lap := range []uint64{0, 1<<32 - size, 1 << 63, math.MaxUint64 - size + 1} {
						for _, fields := range [][2]int{{-1, -1}, {3, 11}, {-1, 0}} {
							w := write(t, l.layout, size, lap+at, own, fielded(7<<40, 9, n))
							s := stretch{lap + at, w.Head(), w.Head(), 0, math.MaxUint64, fields[0], fields[1]}
							oneSample(t, w, s, l.before, own)
						}
					}
				}
			}
		})
	}
}

func oneSample(t *testing.T, w writer, s stretch, before, own uint64) {
	r, size := w.Raw(), s.head-s.off
	r.SetCPU(4)
	r.SetFields(s.timeAt, s.cpuAt)
	want := raw.Record{Kind: raw.Sample, Len: uint32(size - before), Off: s.off, Size: size}
	if r.Layout() == raw.LayoutRawTime {
		want.Time = own
	}
	rec := parse(t, r, s.off, s.head)
	if r.Layout() == raw.LayoutRingBuf {
		want.Len = rec.Len // without padding
		require.Less(t, size-before-uint64(rec.Len), uint64(8))
	}
	require.Equal(t, want, rec)

	data, wantTime, wantCPU := payload(r, rec), rec.Time, 4
	time, ok := r.Payload8(&rec, s.timeAt)
	require.Equal(t, s.timeAt >= 0 && len(data) >= s.timeAt+8, ok)
	if ok {
		wantTime = binary.NativeEndian.Uint64(data[s.timeAt:])
		require.Equal(t, wantTime, time)
	}
	if s.cpuAt >= 0 && len(data) >= s.cpuAt+4 {
		wantCPU = int(int32(binary.NativeEndian.Uint32(data[s.cpuAt:])))
	}
	check := func(ev raw.Event, how string) {
		if ev.Kind() != raw.Sample || ev.Time() != wantTime || ev.CPU() != wantCPU || ev.Late() || *ev.Odd() != (raw.Odd{}) ||
			string(ev.Bytes()) != string(data) || ev.Len() != len(data) || !ev.AsLate().Late() || ev.AsLate().Time() != wantTime {
			t.Fatalf("%s: time %d, CPU %d, % x, late %v; want %d, %d, % x", how, ev.Time(), ev.CPU(), ev.Bytes(), ev.Late(), wantTime, wantCPU, data)
		}
	}
	check(new(raw.Single).Join(r, &rec), "joined")
	words := make([]uint64, 128/8, 128/8+1)
	r.CopyWords(words, rec.Off, size)
	c := raw.NewCopy(r, words)
	again := parse(t, c, 0, size)
	check(new(raw.Single).Join(c, &again), "joined from a copy")

	ev, evSize, ok := r.View().Find(r.At(rec.Off))
	long := uint64(len(data)) >= s.least()
	inOne := r.Layout() == raw.LayoutRingBuf || r.At(rec.Off)+size <= r.Size()
	require.Equal(t, long && inOne, ok)
	if ok {
		check(ev, "found")
		check(new(raw.Single).Private(ev), "private")
		require.Equal(t, size, evSize)
		if len(data) > 0 {
			require.Equal(t, &w.Data()[r.At(rec.Off)+before], unsafe.SliceData(ev.Bytes()), "in its place")
		}
	}
	copied, _, ok := c.View().Find(0)
	require.Equal(t, long, ok, "a copy has no edge in it")
	if ok {
		check(copied, "found in a copy")
	}
	agree(t, r, w.Data(), s)
}

// A raw_size that no kernel writes, but that fits in, at the ring's edge. The first part ends at
// the edge.
func TestRawSizesAroundTheEdge(t *testing.T) {
	for _, layout := range perfLayouts {
		before := 12 + 8*uint64(layout)
		for room := uint64(0); room <= 12; room += 4 { // bytes of the payload before the edge
			for n := range uint32(40) {
				w := ringtest.New(128, layout, (256-before-room)&^7)
				body := make([]byte, before+44-8)
				binary.NativeEndian.PutUint32(body[before-12:], n)
				w.Put(ringtest.TypeSample, body)
				r := w.Raw()
				rec := parse(t, r, r.Tail(), r.Head())
				require.Equal(t, []any{raw.Sample, n, before + 44}, []any{rec.Kind, rec.Len, rec.Size})
				require.Len(t, new(raw.Single).Join(r, &rec).Bytes(), int(n))
			}
		}
		// A record as large as the ring, which no kernel writes.
		w := ringtest.New(128, layout, 0)
		body := make([]byte, 128-8)
		binary.NativeEndian.PutUint32(body[before-12:], uint32(128-before))
		w.Put(ringtest.TypeSample, body)
		rec := parse(t, w.Raw(), 0, 128)
		require.Equal(t, []any{raw.Sample, uint64(128), uint32(128 - before)}, []any{rec.Kind, rec.Size, rec.Len})
	}
}

// Each way to read sees whether a record is reserved, committed or discarded.
func TestRingBufStates(t *testing.T) {
	w := ringtest.NewRingBuf(256, 24)
	r := w.Raw()
	reserve := func() ringtest.Record {
		h, err := w.Reserve(12)
		require.NoError(t, err)
		h.Write(0, fielded(5, 1, 12))
		return h
	}
	a, b, c := reserve(), reserve(), reserve()
	expect := func(kinds ...raw.Kind) {
		t.Helper()
		for i, h := range []ringtest.Record{a, b, c} {
			rec := parse(t, r, h.Off, w.Head())
			require.Equal(t, []any{kinds[i], uint64(24)}, []any{rec.Kind, rec.Size})
			_, _, ok := r.View().Find(r.At(h.Off))
			require.Equal(t, rec.Kind == raw.Sample, ok)
			require.Equal(t, rec.Kind == raw.Busy, r.Busy(h.Off, w.Head()))
		}
	}
	events := func(from, stop uint64) [3]int {
		var into [3]raw.Event
		n, discarded, next := r.Events(from, stop, w.Head(), into[:])
		return [3]int{n, discarded, int(next-a.Off) / 24}
	}
	expect(raw.Busy, raw.Busy, raw.Busy)
	require.Equal(t, [3]int{0, 0, 0}, events(a.Off, w.Head()))
	require.True(t, a.Commit(0), "the reader has caught up with it")
	require.False(t, c.Commit(0))
	expect(raw.Sample, raw.Busy, raw.Sample)
	require.Equal(t, [3]int{1, 0, 1}, events(a.Off, w.Head()))
	b.Discard(0)
	expect(raw.Sample, raw.Discarded, raw.Sample)
	require.Equal(t, [3]int{2, 1, 3}, events(a.Off, w.Head()))
	require.Equal(t, [3]int{1, 1, 2}, events(a.Off, c.Off), "one that is discarded just before the stop")
	require.Equal(t, [3]int{1, 0, 1}, events(a.Off, a.Off+8), "begins before the stop")
	require.Equal(t, [3]int{0, 0, 0}, events(a.Off, a.Off))
	require.False(t, r.Busy(w.Head(), w.Head()))
}

// What two records have in common says nothing of a discarded one between them.
func TestDiscardedBetweenAlike(t *testing.T) {
	w := ringtest.NewRingBuf(256, 0)
	reserve := func(n int) ringtest.Record {
		h, err := w.Reserve(n)
		require.NoError(t, err)
		h.Write(0, fielded(5, 1, n))
		return h
	}
	reserve(12).Commit(0)
	reserve(40).Discard(0)
	for range 3 {
		reserve(12).Commit(0)
	}
	var into [5]raw.Event
	n, discarded, next := w.Raw().Events(0, w.Head(), w.Head(), into[:])
	require.Equal(t, []any{4, 1, w.Head()}, []any{n, discarded, next})
	for _, ev := range into[:4] {
		require.Equal(t, into[0].Bytes(), ev.Bytes())
	}
}

// Sizes near 2 GiB have positions of 32 bits. The test touches only some pages of the memory.
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
	rec := parse(t, r, r.Tail(), r.Head())
	require.Equal(t, raw.Record{Kind: raw.Sample, Len: 1 << 20, Off: 3<<32 - 16, Size: 1<<20 + 8}, rec)
	var evs [2]raw.Event
	n, _, next := r.Events(r.Tail(), r.Tail()+8, r.Head(), evs[:])
	require.Equal(t, []any{1, r.Tail() + rec.Size}, []any{n, next})
	ev := evs[0]
	require.Equal(t, []any{uint64(99), 3, 1 << 20, byte(77)}, []any{ev.Time(), ev.CPU(), ev.Len(), ev.Bytes()[1<<20-1]})
	require.Equal(t, r.Tail(), r.Offset(ev, r.Tail()))
	_, err = raw.NewRingBuf(&positions[0], &positions[1], reserved(t, int(4*size)))
	require.ErrorContains(t, err, "power of two", "max_entries is a u32")
}
