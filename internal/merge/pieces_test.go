package merge_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// place is where a record lies, and its key.
type place struct {
	key  uint64
	ring int
	off  uint64
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.key, q.key), cmp.Compare(p.ring, q.ring), cmp.Compare(p.off, q.off))
}

// Rounds of more records than make a piece: one busy ring among idle ones, all busy, and times so far
// apart that their difference leaves no bits for the ring's index.
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
			m, ws := unchecked(size, make([]uint64, c.rings)...)
			var want []place
			p := ringtest.Payload(1, 12)
			for i, w := range ws {
				if i >= c.busy && i%7 > 0 {
					continue
				}
				times := make([]uint64, c.records)
				if i >= c.busy {
					times = times[:2]
				}
				for j := range times {
					times[j] = c.base + rnd.Uint64N(c.spread)
				}
				slices.Sort(times)
				for j := range times {
					if k := j + rnd.IntN(200); rnd.IntN(50) == 0 && k < len(times) { // far enough to cross pieces
						times[j], times[k] = times[k], times[j]
					}
				}
				for _, time := range times {
					want = append(want, place{time, i, w.Head()})
					require.NoError(t, w.Output(time, p))
				}
				m.Scan(i, w.Head(), forever, 0)
			}
			slices.SortFunc(want, place.compare)
			stop := len(want) / 3
			watermark := want[2*len(want)/3].key
			for _, round := range []struct {
				watermark uint64
				limit     int
			}{{watermark, stop}, {watermark, len(want)}, {all, len(want)}} {
				m.Begin(round.watermark)
				for range round.limit {
					it := next(m)
					if it == nil {
						require.True(t, len(want) == 0 || want[0].key > round.watermark, "the round ends too early")
						break
					}
					if got := (place{it.Key, it.Ring, it.Off}); got != want[0] || it.Late {
						t.Fatalf("got %+v, late %v; want %+v", got, it.Late, want[0])
					}
					want = want[1:]
				}
				m.End()
			}
			require.Empty(t, want)
			for _, w := range ws {
				require.Equal(t, w.Head(), w.Tail())
			}
		})
	}
}

// Rings get more records in the middle of a round of many pieces, early ones too. Each comes once, in
// order or marked, and what was there at the beginning comes in this round.
func TestScansWithinARoundOfManyPieces(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			const rings = 33
			var raws []*raw.Ring
			var ws []*ringtest.Ring
			for range rings {
				w := ringtest.New(1<<19, raw.LayoutRawTime, ^uint64(0)-4095)
				ws, raws = append(ws, w), append(raws, w.Raw())
			}
			m := merge.New(raws, merge.Options{Spill: 1 << 19}, func(int, uint64) {})
			clock, held := uint64(5000), map[place]bool{} // true for those that this round must deliver
			write := func(n int, must func(place) bool) {
				for ; n > 0; n-- {
					i := rnd.IntN(rings) * rnd.IntN(2) // half of them in ring 0
					clock += rnd.Uint64N(3)
					at := place{clock - rnd.Uint64N(30), i, ws[i].Head()}
					if rnd.IntN(100) == 0 {
						at.key -= 2000
					}
					if ws[i].Output(at.key, ringtest.Payload(1, 12)) == nil {
						held[at] = must(at)
					}
				}
				for i, w := range ws {
					m.Scan(i, w.Head(), forever, 0)
				}
			}
			last, delivered := uint64(0), 0
			take := func() bool {
				it := next(m)
				if it == nil {
					return false
				}
				at := place{it.Key, it.Ring, it.Off}
				if _, ok := held[at]; it.Kind == raw.Sample && !ok {
					t.Fatalf("%+v: unknown, or twice", at)
				}
				if it.Late != (at.key < last) {
					t.Fatalf("%+v after %d: late %v", at, last, it.Late)
				}
				last = max(last, at.key)
				delete(held, at)
				delivered++
				return true
			}
			for range 4 {
				write(6000, func(place) bool { return true })
				w := clock - 1000
				if rnd.IntN(2) == 0 {
					w = clock
				}
				for at := range held {
					held[at] = at.key <= w
				}
				m.Begin(w)
				stop := 1 << 30
				if rnd.IntN(3) == 0 {
					stop = rnd.IntN(5000)
				}
				for n := 0; n < stop && take(); n++ {
					if n < 3000 && rnd.IntN(50) == 0 {
						write(rnd.IntN(40), func(place) bool { return false })
					}
					if rnd.IntN(200) == 0 {
						m.Spill(rnd.IntN(rings) * rnd.IntN(2))
					}
				}
				m.End()
				for at, must := range held {
					require.False(t, must && stop == 1<<30, "%+v was due", at)
				}
			}
			m.Begin(all)
			for take() {
			}
			m.End()
			require.Empty(t, held)
			require.Zero(t, m.Spilled())
			require.NotZero(t, delivered)
		})
	}
}

// Rounds take no memory of their own once the rings have been as full as they get.
func TestRoundsDoNotAllocate(t *testing.T) {
	if raw.Poison {
		t.Skip("each event is a copy")
	}
	for _, spill := range []int{0, 2 << 12} {
		var raws []*raw.Ring
		var ws []*ringtest.Ring
		for range 3 {
			w := ringtest.New(1<<12, raw.LayoutRawTime, 0)
			ws, raws = append(ws, w), append(raws, w.Raw())
		}
		for _, timeAt := range []int{-1, 0} {
			for _, r := range raws {
				r.SetFields(timeAt, -1)
			}
			m := merge.New(raws, merge.Options{Spill: spill}, func(int, uint64) {})
			p, time := ringtest.Payload(1<<40, 40), uint64(100)
			recs, indices := make([]raw.Event, merge.BatchSize), make([]int, merge.BatchSize)
			deliver := func() {
				for m.Batch(recs, indices) > 0 || m.Next() != nil {
				}
			}
			round := func() {
				for n := range 40 {
					for i, w := range ws {
						time++
						w.Output(time-uint64(n%5/4*30), p)
						if n == 30 && spill > 0 {
							m.Scan(i, w.Head(), forever, 0)
							m.Spill(i)
						}
					}
				}
				for i, w := range ws {
					w.PutHeader(ringtest.TypeSample, 0, 8)
					m.Scan(i, w.Head(), forever, 0)
					m.Lose(i, 1, time)
				}
				m.Begin(time - 50)
				deliver()
				m.End()
				m.Begin(all)
				deliver()
				m.End()
			}
			for range 20 {
				round()
			}
			writing := testing.AllocsPerRun(50, func() { round() })
			require.Zero(t, writing, "spill %d", spill)
		}
	}
}

// A round without a watermark ends, though rings get more as fast as it delivers.
func TestRoundEndsWhileRingsFill(t *testing.T) {
	b := newBench(t, 2, 4096, 0)
	for i := range uint64(20) {
		b.output(int(i%2), i, 12)
	}
	b.scanAll()
	due := b.due(all)
	b.m.Begin(all)
	for i, want := range due {
		b.next(want)
		b.output(i%2, 100+uint64(i), 12)
		b.scanAll()
	}
	b.over()
	b.round(all)
	b.empty()
	require.Equal(t, 40, b.delivered)
}
