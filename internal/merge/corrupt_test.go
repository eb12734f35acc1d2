package merge_test

import (
	"math/rand/v2"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// out is what these tests look at of an item.
type out struct {
	ring int
	kind raw.Kind
	key  uint64
	late bool
}

// drain delivers everything up to watermark, for rings of which there is no model.
func drain(t testing.TB, m *merge.Merger, watermark uint64, limit int) (got []out) {
	m.Begin(watermark)
	for it := next(m); it != nil; it = next(m) {
		got = append(got, out{it.Ring, it.Kind, it.Key, it.Late})
		if len(got) > limit {
			t.Fatalf("more than %d items", limit)
		}
	}
	m.End()
	return got
}

// unchecked makes a merger of rings that are written by hand.
func unchecked(size int, rings ...uint64) (*merge.Merger, []*ringtest.Ring) {
	var raws []*raw.Ring
	var ws []*ringtest.Ring
	for _, start := range rings {
		w := ringtest.New(size, raw.LayoutRawTime, start)
		ws, raws = append(ws, w), append(raws, w.Raw())
	}
	return merge.New(raws, merge.Options{}, func(int, uint64) {}), ws
}

func TestCorruptStretchComesOnceInItsPlace(t *testing.T) {
	m, ws := unchecked(512, 0, 256)
	scan := func() {
		for i, w := range ws {
			m.Scan(i, w.Head(), forever, 0)
		}
	}
	p := ringtest.Payload(1, 12)
	for _, time := range []uint64{5, 15, 25, 35} {
		require.NoError(t, ws[1].Output(time, p))
	}
	require.NoError(t, ws[0].Output(10, p))
	ws[0].PutHeader(ringtest.TypeSample, 0, 64) // as an output of 65516 bytes leaves it
	scan()
	require.NoError(t, ws[0].Output(30, p))
	require.NoError(t, ws[0].Output(28, p))
	scan()
	require.Equal(t, []out{
		{1, raw.Sample, 5, false}, {0, raw.Sample, 10, false}, {0, raw.Corrupt, 10, false}, {1, raw.Sample, 15, false},
		{1, raw.Sample, 25, false}, {0, raw.Sample, 28, false}, {0, raw.Sample, 30, false}, {1, raw.Sample, 35, false},
	}, drain(t, m, all, 20))
	for _, w := range ws {
		require.Equal(t, w.Head(), w.Tail())
	}
}

func TestCorruptItemSaysWhereAndWhy(t *testing.T) {
	m, ws := unchecked(512, 1<<32-64)
	require.NoError(t, ws[0].Output(10, ringtest.Payload(1, 12)))
	ws[0].PutHeader(ringtest.TypeSample, 20, 80)
	m.Scan(0, ws[0].Head(), forever, 0)
	m.Begin(all)
	next(m)
	it := next(m)
	require.Equal(t, raw.Corrupt, it.Kind)
	require.Equal(t, raw.FaultUnaligned, it.Fault)
	require.Equal(t, uint64(1<<32-32), it.Off)
	require.Equal(t, uint64(80), it.Size)
	require.Nil(t, next(m))
}

// Nothing could wait for such a time to come.
func TestTimeInTheFutureDoesNotHoldTheRingUp(t *testing.T) {
	const ceiling = 1000
	m, ws := unchecked(512, 448)
	p := ringtest.Payload(1, 12)
	for _, time := range []uint64{10, ceiling, ceiling + 1, 20, ^uint64(0), 30} {
		require.NoError(t, ws[0].Output(time, p))
	}
	// A loss's own time is of no use: it takes that of the sample behind it, and here there is none.
	ws[0].Put(ringtest.TypeLost, append(make([]byte, 8), 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255))
	found := m.Scan(0, ws[0].Head(), ceiling, 0)
	require.Equal(t, 2, found.Inversions, "20 and 30, behind 1000")
	m.Begin(all)
	for _, want := range []struct {
		kind raw.Kind
		key  uint64
		off  uint64
	}{
		{raw.Sample, 10, 0}, {raw.Sample, 20, 96}, {raw.Sample, 30, 160}, {raw.Sample, ceiling, 32},
		{raw.Corrupt, ceiling, 64}, {raw.Corrupt, ceiling, 128}, {raw.Lost, ceiling, 192},
	} {
		it := next(m)
		require.NotNil(t, it)
		require.Equal(t, want.kind, it.Kind)
		require.Equal(t, want.key, it.Key)
		require.Equal(t, want.off, it.Off-448)
		require.Equal(t, uint64(32), it.Size)
		require.False(t, it.Late)
		if it.Kind == raw.Corrupt {
			require.Equal(t, raw.FaultTime, it.Fault)
		}
	}
	require.Nil(t, next(m))
	m.End()
	require.Equal(t, ws[0].Head(), ws[0].Tail())
}

func TestHeadFurtherAheadThanTheRing(t *testing.T) {
	m, ws := unchecked(256, 0, 0)
	p := ringtest.Payload(1, 12)
	require.NoError(t, ws[0].Output(10, p))
	ws[0].SetHead(1 << 40)
	require.NoError(t, ws[1].Output(20, p))
	m.Scan(0, 1<<40, forever, 0)
	m.Scan(1, ws[1].Head(), forever, 0)
	require.Equal(t, []out{{0, raw.Corrupt, 0, false}, {1, raw.Sample, 20, false}}, drain(t, m, all, 9))
	require.Equal(t, uint64(1<<40), ws[0].Tail())
	require.NoError(t, ws[0].Output(30, p))
	m.Scan(0, ws[0].Head(), forever, 0)
	require.Equal(t, []out{{0, raw.Sample, 30, false}}, drain(t, m, all, 9))
}

// An output that is far too long runs over records that are scanned and held.
// What comes of those is anybody's guess, but then the ring is well again.
func TestRecordsWrittenOverAfterTheScan(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		b, clock := newBench(t, 2, 512, 1<<32-512), uint64(100)
		write := func() {
			for n := rnd.IntN(30); n > 0; n-- {
				b.output(rnd.IntN(2), clock+rnd.Uint64N(50), 12+rnd.IntN(30)) // many out of order
			}
		}
		write()
		b.scanAll()
		if rnd.IntN(2) == 0 {
			for _, want := range b.due(120) { // part of it delivered
				b.m.Begin(120)
				b.next(want)
				b.finish()
				b.m.End()
			}
		}
		for _, l := range b.lanes {
			l.pending = nil // no longer to be expected
			for n := rnd.IntN(40); n > 0; n-- {
				word := rnd.IntN(len(l.Data())/8) * 8
				copy(l.Data()[word:], []byte{byte(rnd.IntN(10)), 0, 0, 0, 0, 0, byte(rnd.IntN(16) * 8), 0}) // a header, perhaps
			}
		}
		drain(t, b.m, all, 4*512/8)
		for i, l := range b.lanes {
			require.Equal(t, l.Head(), l.Tail(), "ring %d, seed %d", i, seed)
			require.True(t, b.output(i, 1000, 12)) // with a report of losses, if there were any
			l.pending = nil
		}
		b.scanAll()
		drain(t, b.m, all, 4)
		b.last = b.m.Last()
		for range 20 {
			clock = b.last - 20
			write()
			b.round(all)
		}
		for _, l := range b.lanes {
			require.Empty(t, l.pending, "seed %d", seed)
			require.Equal(t, l.Head(), l.Tail())
		}
	}
}

// A record that stands before one out of order is written over after the scan. The others are where
// they were.
func TestRecordWrittenOverBeforeAnEarlyOne(t *testing.T) {
	sample := func(key uint64) out { return out{0, raw.Sample, key, false} }
	for name, c := range map[string]struct {
		word  int // of the record
		bytes []byte
		still bool // a sample of its time
	}{
		"another type": {0, []byte{77, 0, 0, 0, 0, 0, 32, 0}, false},
		"of another type, it seems to hold the early one too": {0, []byte{77, 0, 0, 0, 0, 0, 64, 0}, false},
		"a loss":                            {0, []byte{2, 0, 0, 0, 0, 0, 32, 0}, false},
		"corrupt":                           {0, []byte{9, 0, 0, 0, 0, 0, 4, 0}, false},
		"beyond the head":                   {0, []byte{9, 0, 0, 0, 0, 0, 136, 0}, false},
		"another time":                      {1, []byte{21, 0, 0, 0, 0, 0, 0, 0}, false},
		"raw_size too large":                {2, []byte{13, 0, 0, 0}, false},
		"larger, but a sample of this time": {0, []byte{9, 0, 0, 0, 0, 0, 64, 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, ws := unchecked(512, 1<<32-64)
			w, p := ws[0], ringtest.Payload(1, 12)
			for _, time := range []uint64{10, 20, 15, 30, 40} {
				require.NoError(t, w.Output(time, p))
			}
			m.Scan(0, w.Head(), forever, 0)
			copy(w.Data()[512-32+8*c.word:], c.bytes)
			second := sample(20)
			if !c.still {
				second.kind = raw.Corrupt
			}
			require.Equal(t, []out{sample(10), sample(15), second, sample(30), sample(40)}, drain(t, m, all, 9))
			require.Equal(t, w.Head(), w.Tail())

			for _, time := range []uint64{60, 50, 70} {
				require.NoError(t, w.Output(time, p))
			}
			m.Scan(0, w.Head(), forever, 0)
			require.Equal(t, []out{sample(50), sample(60), sample(70)}, drain(t, m, all, 9), "the ring is well again")
		})
	}
}

func TestRecordWrittenOverSaysSo(t *testing.T) {
	for _, spill := range []int{0, 512} {
		r := ringtest.New(512, raw.LayoutRawTime, 64)
		m := merge.New([]*raw.Ring{r.Raw()}, merge.Options{Spill: spill}, func(int, uint64) {})
		for _, time := range []uint64{10, 20} {
			require.NoError(t, r.Output(time, ringtest.Payload(1, 12)))
		}
		m.Scan(0, r.Head(), forever, 0)
		r.Data()[64+32+8]++
		if spill > 0 {
			require.Equal(t, uint64(64), m.Spill(0))
		}
		m.Begin(all)
		require.Equal(t, raw.Sample, next(m).Kind)
		it := next(m)
		require.Equal(t, raw.Corrupt, it.Kind)
		require.Equal(t, raw.FaultChanged, it.Fault)
		require.Equal(t, uint64(64+32), it.Off)
		require.Equal(t, uint64(8), it.Size)
		require.Equal(t, uint64(20), it.Key)
		require.Nil(t, next(m))
		m.End()
		require.Equal(t, r.Head(), r.Tail())
		require.Zero(t, m.Spilled())
	}
}

// No kernel's head does: something else has written to the metadata page, and the kernel's next
// record puts it right.
func TestHeadThatGoesBack(t *testing.T) {
	m, ws := unchecked(512, 1<<32-64)
	w, p := ws[0], ringtest.Payload(1, 12)
	for _, time := range []uint64{10, 20, 15} {
		require.NoError(t, w.Output(time, p))
	}
	m.Scan(0, w.Head(), forever, 0)
	for _, back := range []uint64{8, 96, 104, 1 << 20, 1 << 62, 1 << 63} {
		require.Zero(t, m.Scan(0, w.Head()-back, forever, 0))
		require.Equal(t, w.Head(), m.Scanned(0))
	}
	require.NoError(t, w.Output(30, p))
	m.Scan(0, w.Head(), forever, 0)
	require.Len(t, drain(t, m, all, 9), 4)
	require.Equal(t, w.Head(), w.Tail())
}

// What is corrupt stays so, however often more is scanned before it is delivered.
func TestCorruptFrontAndMoreScans(t *testing.T) {
	m, ws := unchecked(512, 0)
	w, p := ws[0], ringtest.Payload(1, 12)
	for _, time := range []uint64{10, 5000} {
		require.NoError(t, w.Output(time, p))
	}
	m.Scan(0, w.Head(), 1000, 0)
	require.Equal(t, []out{{0, raw.Sample, 10, false}}, func() []out {
		m.Begin(all)
		it := next(m)
		m.End()
		return []out{{it.Ring, it.Kind, it.Key, it.Late}}
	}())
	for _, time := range []uint64{20, 15} {
		require.NoError(t, w.Output(time, p))
		m.Scan(0, w.Head(), 1000, 0)
	}
	require.Equal(t, []out{{0, raw.Corrupt, 10, false}, {0, raw.Sample, 15, false}, {0, raw.Sample, 20, false}}, drain(t, m, all, 9))
	require.Equal(t, w.Head(), w.Tail())
}
