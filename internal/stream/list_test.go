package stream

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// bufRig is a rig with one ring buffer after n perf rings. Payloads begin with the time.
type bufRig struct {
	*rig
	w    *ringtest.RingBuf
	ring *Ring
	solo *Unordered
	one  *Pass // a pass over the ring buffer alone
}

func newBufRig(t testing.TB, n int, start uint64) *bufRig {
	b := &bufRig{rig: newRig(t, n), w: ringtest.NewRingBuf(ringSize, start), one: new(Pass)}
	b.ring = &Ring{Raw: b.w.Raw()}
	b.ring.Raw.SetFields(0, -1)
	b.Add(b.ring)
	b.solo = new(Unordered).Init(b.one, &b.halt, new(Flushes), func() {})
	return b
}

func (b *bufRig) reserve(time uint64) ringtest.Record {
	h, err := b.w.Reserve(8)
	require.NoError(b.t, err)
	h.Write(0, binary.NativeEndian.AppendUint64(nil, time))
	return h
}

func (b *bufRig) commit(times ...uint64) {
	for _, time := range times {
		b.reserve(time).Commit(0)
	}
}

// counts returns samples, discarded records, and stores of the tail.
func (b *bufRig) counts() [3]uint64 {
	c := &b.ring.Counts
	return [3]uint64{c.Samples.Load(), c.Discarded.Load(), c.TailStores.Load()}
}

const bufRecord = 16 // size of a record with 8 bytes of payload

func TestRingBuf(t *testing.T) {
	for _, start := range []uint64{0, 1<<32 - 32, math.MaxUint64 - 31} {
		b := newBufRig(t, 0, start)
		b.commit(1, 2)
		b.reserve(3).Discard(0)
		b.commit(4)
		busy := b.reserve(5)
		b.commit(6)
		require.Equal(t, uint64(6*bufRecord), b.ring.unread())
		b.solo.BeginOne(b.ring)
		require.Equal(t, []uint64{1, 2, 4}, read(b.one, 9), "up to the busy one")
		require.Equal(t, busy.Off, b.w.Tail())
		require.Equal(t, [3]uint64{3, 1, 1}, b.counts())
		require.Zero(t, b.ring.unread(), "nobody is to get up for what is busy")
		require.Equal(t, uint64(2*bufRecord), b.ring.Used())

		b.solo.BeginOne(b.ring)
		require.Empty(t, read(b.one, 9))
		require.Equal(t, [3]uint64{3, 1, 1}, b.counts(), "the tail is not stored for nothing")
		require.True(t, busy.Commit(0), "the kernel wakes, as the reader has caught up")
		require.Equal(t, uint64(2*bufRecord), b.ring.unread())
		b.solo.BeginOne(b.ring)
		require.Equal(t, []uint64{5, 6}, read(b.one, 9))
		require.Equal(t, [3]uint64{5, 1, 2}, b.counts())
		require.Equal(t, b.w.Head(), b.w.Tail())
		require.Equal(t, uint64(6*bufRecord), b.ring.Counts.Bytes.Load())
	}
}

// A pass consumes the samples taken from a list, and the discarded records before the next sample.
func TestListTakenInPart(t *testing.T) {
	if raw.Poison {
		t.Skip("a list has one event")
	}
	for n, want := range map[int][3]uint64{0: {1, 2, 3}, 1: {1, 2, 3}, 2: {2, 2, 4}, 3: {3, 4, 7}, 9: {3, 4, 7}} {
		b := newBufRig(t, 0, 1<<32-48)
		b.reserve(0).Discard(0)
		b.commit(1)
		b.reserve(0).Discard(0)
		b.commit(2, 3)
		b.reserve(0).Discard(0)
		b.reserve(0).Discard(0)
		b.solo.BeginOne(b.ring)
		read(b.one, n)
		require.Equal(t, want, [3]uint64{b.counts()[0], b.counts()[1], (b.w.Tail() - 1<<32 + 48) / bufRecord}, "%d taken", n)
	}
}

// Another reader has read the ring buffer during a pass, and programs have overwritten the records
// of a list with others of any size. The pass ends, both readers' positions stay as they are, and
// the reader counts the sharing.
func TestListOverwritten(t *testing.T) {
	for size := 16; size <= 400; size += 8 {
		b := newBufRig(t, 0, 0)
		b.reserve(0).Discard(0)
		b.commit(1, 2, 3, 4)
		b.solo.BeginOne(b.ring)
		require.True(t, b.one.Next())
		b.w.SetTail(b.w.Head())
		for b.w.Head() < ringSize+uint64(size) {
			h, err := b.w.Reserve(size)
			require.NoError(t, err)
			h.Write(0, make([]byte, size))
			h.Commit(0)
			b.w.SetTail(b.w.Head())
		}
		b.one.End()
		require.Equal(t, b.w.Head(), b.w.Tail(), "of the other reader")
		require.EqualValues(t, 1, b.ring.Counts.Shared.Load())
		b.solo.BeginOne(b.ring)
		require.Empty(t, read(b.one, 9))
		require.EqualValues(t, 1, b.ring.Counts.Shared.Load(), "once")
	}
}

// An event counts as taken if the user's function panics with it.
func TestListAndPanic(t *testing.T) {
	b := newBufRig(t, 0, 0)
	b.reserve(0).Discard(0)
	b.commit(1, 2, 3)
	func() {
		defer func() { recover() }()
		b.solo.BeginOne(b.ring)
		defer b.one.End()
		for b.one.Next() {
			b.one.Batch.Taken++
			if b.ring.Counts.Samples.Load() == 0 {
				panic("the user's")
			}
		}
	}()
	require.Equal(t, uint64(2*bufRecord), b.w.Tail())
	b.solo.BeginOne(b.ring)
	require.Equal(t, []uint64{2, 3}, read(b.one, 9))
}

func TestOnlyDiscarded(t *testing.T) {
	b := newBufRig(t, 0, 0)
	for range 3 {
		b.reserve(0).Discard(0)
	}
	b.solo.BeginOne(b.ring)
	require.Empty(t, read(b.one, 9))
	require.Equal(t, [3]uint64{0, 3, 1}, b.counts())
	require.Equal(t, b.w.Head(), b.w.Tail())
}

// A pass over all rings leaves a ring whose first record is busy, and ends.
func TestPassOverBusyRing(t *testing.T) {
	b := newBufRig(t, 2, 0)
	for range 200 {
		b.reserve(1) // never committed: the ring is more than half full
	}
	b.output(0, 1, 2)
	b.output(1, 3)
	b.begin()
	require.ElementsMatch(t, []uint64{1, 2, 3}, read(&b.pass, 9))
	b.begin()
	require.Empty(t, read(&b.pass, 9))
	require.Zero(t, b.w.Tail())
	require.Equal(t, [3]uint64{}, b.counts())
}

// A pass over a nearly full ring, longer than a list, frees it by eighths and counts correctly.
func TestLongLists(t *testing.T) {
	b := newBufRig(t, 1, 1<<32-512)
	n, discarded := uint64(0), uint64(0)
	for {
		h, err := b.w.Reserve(8)
		if err != nil {
			break
		}
		if h.Write(0, binary.NativeEndian.AppendUint64(nil, n)); h.Off%5 == 0 {
			h.Discard(0)
			discarded++
			continue
		}
		h.Commit(0)
		n++
	}
	b.solo.BeginOne(b.ring)
	times := read(b.one, 1<<20)
	require.Len(t, times, int(n))
	for i, time := range times {
		require.Equal(t, uint64(i), time)
	}
	c := b.counts()
	require.Equal(t, []uint64{n, discarded}, c[:2])
	require.Equal(t, b.w.Head(), b.w.Tail())
	require.Greater(t, b.counts()[2], uint64(5))
}

// The user gets damage as one corrupt stretch up to the head.
func TestCorruptRingBuf(t *testing.T) {
	b := newBufRig(t, 0, 0)
	b.commit(1)
	b.w.PutHeader(1000, 48)
	b.solo.BeginOne(b.ring)
	require.Equal(t, []uint64{1, 1}, read(b.one, 9))
	require.Equal(t, uint64(1), b.ring.Counts.Corrupt.Load())
	require.Equal(t, b.w.Head(), b.w.Tail())
}

// In a perf ring with times in payloads, a sample that is too short takes its record's time.
func TestPerfRingWithFields(t *testing.T) {
	g := newRig(t, 1)
	g.one[0].Raw.SetFields(4, -1)
	var want []uint64
	for i := range uint64(500) {
		payload := binary.NativeEndian.AppendUint64(make([]byte, 4), 1000+i)
		if i%7 == 0 {
			payload = payload[:4] // with 8, the padding would make up for the rest
			want = append(want, i)
		} else {
			want = append(want, 1000+i)
		}
		require.NoError(t, g.w[0].Output(i, payload))
		if i%50 == 49 {
			g.beginOne(0)
			require.Equal(t, want, read(g.passes[0], 99))
			want = want[:0]
		}
	}
	require.Equal(t, uint64(500), g.one[0].Counts.Samples.Load())
	require.Equal(t, g.w[0].Head(), g.w[0].Tail())
}

func TestListsDoNotAllocate(t *testing.T) {
	if raw.Poison {
		t.Skip("poison has memory of its own for each event")
	}
	b := newBufRig(t, 0, 0)
	payload := make([]byte, 8)
	require.Zero(t, testing.AllocsPerRun(300, func() {
		b.w.Output(payload)
		b.w.Output(payload[:4])
		b.solo.BeginOne(b.ring)
		for b.one.Next() {
			b.one.Batch.Finish()
		}
		b.one.End()
	}))
}
