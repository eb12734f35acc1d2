package stream

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// Rounds that take several pieces: one busy ring among idle ones, all busy, and times so far apart
// that their difference leaves no bits for the ring's index.
func TestRoundsOfManyPieces(t *testing.T) {
	for name, c := range map[string]struct {
		rings, busy, records int
		base, spread         uint64 // of times
	}{
		"one ring":             {1, 1, 40000, 1 << 40, 40000},
		"one busy ring":        {100, 1, 5000, 1 << 40, 5000},
		"all busy":             {32, 32, 1500, 1 << 40, 48000},
		"few times":            {8, 8, 6000, 0, 3},
		"far apart":            {128, 128, 40, 0, 1 << 61},
		"far apart, two rings": {2, 2, 3000, 1 << 60, 1 << 61},
	} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(7, uint64(c.rings)))
			size := 1 << 21
			if c.busy > 32 {
				size = 1 << 12
			}
			b := newBench(t, c.rings, size, 0)
			var written []uint64
			for i := range b.lanes {
				times := make([]uint64, c.records)
				if i >= c.busy {
					times = times[:min(2, 2*(i%7))]
				}
				for j := range times {
					times[j] = c.base + rnd.Uint64N(c.spread)
				}
				slices.Sort(times)
				for j := range times {
					// Far enough to cross pieces.
					if k := j + rnd.IntN(200); rnd.IntN(50) == 0 && k < len(times) {
						times[j], times[k] = times[k], times[j]
					}
				}
				for _, time := range times {
					require.True(t, b.output(i, time, 12))
				}
				written = append(written, times...)
			}
			slices.Sort(written)
			b.scanAll()
			watermark := written[2*len(written)/3]
			for _, want := range b.begin(watermark)[:len(written)/3] {
				b.next(want)
			}
			b.end()
			b.round(watermark)
			b.round(all)
			b.empty()
			require.Equal(t, len(written), b.delivered)
			require.Zero(t, b.late)
		})
	}
}

// Rounds do not allocate once the rings have been as full as they get.
func TestRoundsDoNotAllocate(t *testing.T) {
	if raw.Poison {
		t.Skip("each event is a copy")
	}
	for _, spill := range []int{0, 2 << 12} {
		for _, timeAt := range []int{-1, 0} {
			m := newMerger(spill, func(int, uint64) {})
			var ws []*ringtest.Ring
			for range 3 {
				w := ringtest.New(1<<12, raw.LayoutRawTime, 0)
				r := w.Raw()
				r.SetFields(timeAt, -1)
				m.add(&Ring{Raw: r})
				ws = append(ws, w)
			}
			p, time := ringtest.Payload(1<<40, 40), uint64(100)
			recs, indices := make([]raw.Event, batchSize), make([]int, batchSize)
			round := func() {
				for n := range 40 {
					for i, w := range ws {
						time++
						w.Output(time-uint64(n%5/4*30), p)
						if n == 30 && spill > 0 {
							m.rings[i].scanTo(w.Head(), forever, 0)
							m.spill(i)
						}
					}
				}
				for i, w := range ws {
					w.PutHeader(ringtest.TypeSample, 0, 8)
					m.rings[i].scanTo(w.Head(), forever, 0)
					m.lose(i, 1, time)
				}
				for _, watermark := range []uint64{time - 50, all} {
					m.begin(watermark)
					for m.batch(recs, indices) > 0 || m.next() != nil {
					}
					m.end()
				}
			}
			for range 20 {
				round()
			}
			require.Zero(t, testing.AllocsPerRun(50, round), "spill %d", spill)
		}
	}
}

func TestTailIsStoredOnceInARound(t *testing.T) {
	b := newBench(t, 3, 4096, 0)
	for i := range uint64(12) {
		b.output(int(i%2), i, 20)
	}
	b.round(all)
	require.Equal(t, 2, b.commits, "of the two rings that held something")
	b.round(all)
	require.Equal(t, 2, b.commits)
	b.empty()
}

// A round frees bytes on the way, so that it does not keep a ring full. Records written there
// meanwhile wait for the next round: otherwise a round without a watermark would never end.
func TestLongRoundCommitsEarly(t *testing.T) {
	b := newBench(t, 2, 1024, wrap)
	b.output(1, 0, 12)
	for i := uint64(1); b.output(0, i, 12); i++ {
	}
	b.scanAll()
	due := b.begin(all)
	left := 32 * uint64(len(due))
	for _, want := range due {
		b.next(want)
		left -= 32
		require.LessOrEqual(t, b.lanes[0].Head()-b.lanes[0].Tail()-left, uint64(1024/8+32))
	}
	require.Equal(t, uint64(wrap), b.lanes[1].Tail(), "the other ring waits for the end of the round")
	require.InDelta(t, 7, b.commits, 1)
	require.True(t, b.output(0, 100, 12))
	b.scan(0)
	b.over()
	b.round(all)
	b.empty()
}

// While a busy record holds the tail, a round only rarely tries to move it.
func TestRoundsBehindABusyRecord(t *testing.T) {
	const n = 1000
	h := byHand(t, 0, ringtest.NewRingBuf(1<<15, wrap))
	h.reserve(0, 1, 8)
	for i := range uint64(n) {
		h.write(0, 2+i)
	}
	h.scan(0)
	h.begin(all)
	batches, got := 0, 0
	for k := h.batch(batch, batchRings); k > 0; k = h.batch(batch, batchRings) {
		batches++
		got += k
	}
	h.end()
	require.Equal(t, n, got)
	require.LessOrEqual(t, batches, n/batchSize+8)
}

// A merger that gave up its records, in a round or not, delivers later ones.
func TestAbandon(t *testing.T) {
	for stop := range 5 {
		h := byHand(t, 512, perfRings(512, wrap, 64)...)
		for range 2 {
			h.scanned(0, 10, 30, 20, 40, 5)
			h.scanned(1, 11)
			require.NotZero(t, h.spill(0), "its block is free")
			h.begin(all)
			for range stop {
				require.NotNil(t, next(h.merger))
			}
			h.abandon()
			require.Nil(t, next(h.merger))
			require.Zero(t, h.rings[0].samples()+h.rings[1].samples())
			h.drained()
		}
		h.scanned(0, 50)
		h.scanned(1, 45)
		h.round(out{1, raw.Sample, 45, false}, out{0, raw.Sample, 50, false})
		h.drained()
	}
}

// Events of an added ring are late if removed rings have delivered later ones.
func TestAddAfterRemove(t *testing.T) {
	h := byHand(t, 0, perfRings(512, 0)...)
	h.scanned(0, 20)
	h.round(samples(0, 20)...)
	require.Zero(t, h.remove(0))
	h.round()
	h.add(&Ring{Raw: h.writers[0].Raw()})
	h.scanned(0, 5)
	h.round(out{0, raw.Sample, 5, true})
}
