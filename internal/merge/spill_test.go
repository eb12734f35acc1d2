package merge_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"weak"

	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

const (
	large = 256 << 10 // of a ring: 4 blocks
	block = 64 << 10
)

// copied is all that there is to say about an item.
type copied struct {
	raw.Odd
	ring, len int
	key       uint64
	late      bool
	payload   string
}

// prefilled delivers rings whose content does not depend on what is spilled.
func prefilled(t *testing.T, seed uint64, spill int) (got []copied, moved uint64) {
	rnd, whim := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	b := setup{rings: 3, size: large, start: math.MaxUint64 - 1<<17 - 7, spill: spill}.bench(t)
	clock := uint64(1000)
	for i := range b.lanes {
		for b.lanes[i].room() > 24<<10 {
			clock += rnd.Uint64N(3)
			switch rnd.IntN(20) {
			case 0:
				b.damage(i, 8*(1+rnd.IntN(1000)))
			case 1:
				b.throttle(i, 8*rnd.IntN(500))
			default:
				require.True(t, b.output(i, clock-min(rnd.Uint64N(40), 20), 12+rnd.IntN(9000)))
			}
		}
		require.False(t, b.output(i, clock, 60000))
		require.True(t, b.output(i, clock+1, 12), "and a loss")
	}
	b.scanAll()
	for _, w := range []uint64{1010, 1050, clock - 50, all} {
		for _, want := range b.begin(w) {
			if spill > 0 && whim.IntN(6) == 0 {
				moved += b.spill(whim.IntN(3))
			}
			b.next(want)
			it := b.now // where its bytes lie is what spilling changes
			got = append(got, copied{it.Odd, it.Ring, it.Len, it.Key, it.Late, string(it.Data)})
		}
		b.over()
	}
	b.empty()
	return got, moved
}

func TestSpillingChangesNothing(t *testing.T) {
	for seed := range uint64(seeds) {
		want, _ := prefilled(t, seed, 0)
		for _, budget := range []int{block, 2*block + 1, 100 * block} {
			got, moved := prefilled(t, seed, budget)
			require.NotZero(t, moved)
			require.Equal(t, len(want), len(got))
			for i := range want {
				require.Equal(t, want[i], got[i])
			}
		}
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct{ budget, blocks int }{{0, 0}, {block - 1, 0}, {block, 1}, {2*block - 1, 1}, {2 * block, 2}} {
		b := setup{rings: 2, size: large, spill: c.budget}.bench(t)
		for time := uint64(1); b.room(0, 6000) && b.room(1, 6000); time++ {
			b.output(0, time, 5000)
			b.output(1, time, 5000)
		}
		b.scanAll()
		for n := range 4 {
			bytes := b.spill(n % 2)
			require.Equal(t, n < c.blocks, bytes > 0, "%d of %+v", n, c)
			require.Equal(t, uint64(min(n+1, c.blocks)*block), b.m.Spilled())
		}
		b.round(all)
		b.empty()
		b.output(0, 1000, 5000)
		b.scanAll()
		require.Equal(t, c.blocks > 0, b.spill(0) > 0, "blocks are used again")
		b.round(all)
		b.empty()
	}
}

func (b *bench) room(i, n int) bool { return b.lanes[i].room() > n }

// What holds no sample needs no memory.
func TestSpillOfDamageTakesNoMemory(t *testing.T) {
	b := setup{rings: 1, size: large}.bench(t)
	b.output(0, 10, 12)
	b.round(all)
	b.damage(0, large/2)
	require.Equal(t, uint64(large/2), b.spill(0), "longer than a block")
	b.throttle(0, 1000)
	b.damage(0, 64)
	b.output(0, 20, 12)
	b.scanAll()
	b.spill(0)
	b.round(all)
	b.empty()
}

// A record that waits for long, with a key that is far ahead, does not keep what comes behind it in the
// ring, delivered or not.
func TestSpillOfOneThatIsFarAhead(t *testing.T) {
	b := setup{rings: 1, size: large, start: math.MaxUint64 - large + 1, keyed: true, spill: block}.bench(t)
	b.keys[1] = 1 << 40
	require.True(t, b.output(0, 1, 3000))
	write := func(n int) {
		for range n {
			require.True(t, b.output(0, b.ids+1, 3000))
		}
		b.scanAll()
	}
	write(70)
	b.round(1000)
	require.Equal(t, b.lanes[0].Tail(), uint64(math.MaxUint64-large+1), "it holds all that was delivered")
	require.Greater(t, b.spill(0), uint64(200000), "all behind it was delivered")
	require.Equal(t, uint64(block), b.m.Spilled())
	write(60)
	b.round(1000)
	require.Equal(t, b.lanes[0].Head(), b.lanes[0].Tail(), "nothing is held up by it any more")
	write(60)
	require.Zero(t, b.spill(0), "no memory")
	b.round(all)
	b.empty()
}

// All but the first of a ring are early: chunks end between those, too.
func TestSpillOfEarlyOnes(t *testing.T) {
	b := setup{rings: 1, size: large, start: 1<<32 - 4096, keyed: true, spill: 3 * block}.bench(t)
	b.keys[1] = 1 << 40
	for b.room(0, 6000) {
		b.output(0, 1000-b.ids, 5000)
	}
	b.scanAll()
	for range 3 {
		require.Greater(t, b.spill(0), uint64(block-6000))
	}
	require.Zero(t, b.spill(0))
	b.round(980)
	b.spill(0)
	b.round(all)
	b.empty()
}

func TestSpillEndsAnItemsLife(t *testing.T) {
	r := ringtest.New(512, raw.LayoutRawTime, 0)
	m := merge.New([]*raw.Ring{r.Raw()}, merge.Options{Spill: 1024}, func(int, uint64) {})
	for _, time := range []uint64{1, 2, 3} {
		require.NoError(t, r.Output(time, ringtest.Payload(time, 12)))
	}
	m.Scan(0, r.Head(), forever, 0)
	m.Begin(all)
	require.Equal(t, uint64(1), next(m).Key)
	require.Equal(t, uint64(64), m.Spill(0), "the first one's bytes are freed, not copied")
	require.Equal(t, r.Head(), r.Tail())
	require.Equal(t, uint64(2), next(m).Key)
	require.Zero(t, m.Spill(0), "nothing is left")
	require.Equal(t, uint64(512), m.Spilled())
	require.Equal(t, uint64(3), next(m).Key)
	require.Equal(t, uint64(512), m.Spilled(), "the last one is with the user")
	require.Nil(t, next(m))
	require.Zero(t, m.Spilled())
	m.End()
}

// A chunk ends where a record begins: at the block's very end if one does, and never where a loss was added that is in no record.
func TestSpillEndsWhereARecordBegins(t *testing.T) {
	for _, c := range []struct {
		size  int    // of records
		back  uint64 // from one's time to the next's
		bytes int    // spilled
	}{{64, 0, block}, {64, 9, block}, {24, 0, block - 16}} { // one of 24 ends 8 bytes behind the block
		r := ringtest.New(large, raw.LayoutRawTime, 0)
		m := merge.New([]*raw.Ring{r.Raw()}, merge.Options{Spill: block}, func(int, uint64) {})
		time := uint64(1 << 20)
		output := func() {
			time -= c.back
			require.NoError(t, r.Output(time, make([]byte, c.size-20)))
		}
		for r.Head() <= block {
			output()
		}
		m.Scan(0, r.Head(), forever, 0)
		m.Lose(0, 3, 1<<20)
		output()
		m.Scan(0, r.Head(), forever, 0)
		require.Equal(t, uint64(c.bytes), m.Spill(0))
		kinds := map[raw.Kind]int{}
		for _, it := range drain(t, m, all, large) {
			kinds[it.kind]++
		}
		require.Equal(t, map[raw.Kind]int{raw.Sample: int(r.Head()) / c.size, raw.Lost: 1}, kinds)
	}
}

// The memory of the last event delivered is there for the next spill.
func TestSpillReusesWhatItEndsTheLifeOf(t *testing.T) {
	r := ringtest.New(512, raw.LayoutRawTime, 0)
	m := merge.New([]*raw.Ring{r.Raw()}, merge.Options{Spill: 512}, func(int, uint64) {})
	output := func(time uint64) {
		require.NoError(t, r.Output(time, ringtest.Payload(time, 12)))
		m.Scan(0, r.Head(), forever, 0)
	}
	output(1)
	require.Equal(t, uint64(32), m.Spill(0))
	output(2)
	m.Begin(all)
	require.Equal(t, uint64(1), next(m).Key)
	require.Equal(t, uint64(32), m.Spill(0))
	require.Equal(t, uint64(2), next(m).Key)
	require.Nil(t, next(m))
	m.End()
}

// Memory that was made for rings of one size goes if those of another need it, and counts no longer.
func TestSpillGivesUpBlocksOfOtherSizes(t *testing.T) {
	rs := []*ringtest.Ring{ringtest.New(512, raw.LayoutRawTime, 0), ringtest.New(1024, raw.LayoutRawTime, 0)}
	m := merge.New([]*raw.Ring{rs[0].Raw(), rs[1].Raw()}, merge.Options{Spill: 1024}, func(int, uint64) {})
	for n := range uint64(6) {
		i := int(n % 2)
		require.NoError(t, rs[i].Output(n, ringtest.Payload(n, 12)))
		m.Scan(i, rs[i].Head(), forever, 0)
		require.Equal(t, uint64(32), m.Spill(i))
		require.Equal(t, []out{{i, raw.Sample, n, false}}, drain(t, m, all, 9))
	}
}

// Memory that is free keeps nothing alive of the ring that it was for.
func TestFreeBlocksKeepNoSource(t *testing.T) {
	w := ringtest.New(512, raw.LayoutRawTime, 0)
	source := new([64]byte)
	alive := weak.Make(source)
	ring := w.Raw()
	ring.SetSource(source)
	m := merge.New([]*raw.Ring{ring}, merge.Options{Spill: 512}, func(int, uint64) {})
	require.NoError(t, w.Output(1, ringtest.Payload(1, 12)))
	m.Scan(0, w.Head(), forever, 0)
	require.NotZero(t, m.Spill(0))
	m.Remove(0)
	ring, source = nil, nil
	runtime.GC()
	require.Nil(t, alive.Value())
	runtime.KeepAlive(m)
}

// Offsets are compared by their difference, that of what was copied out long ago too.
func TestHeadFarFromWhatWasCopiedOut(t *testing.T) {
	m, w := oneBuffer(1024, 1024)
	start := w.Head()
	reserve(t, w, 1, 8).Commit(0)
	m.Scan(0, w.Head(), forever, 0)
	require.Equal(t, uint64(16), m.Spill(0))
	require.NotZero(t, m.Ahead(0, start+1<<62-8))
	require.Zero(t, m.Ahead(0, start+1<<62))
}

// Giving up puts everything back, and the rings go on.
func TestAbandon(t *testing.T) {
	for stop := range 4 {
		b := setup{rings: 2, size: 512, spill: 512}.bench(t)
		for _, time := range []uint64{10, 30, 20, 40} {
			b.output(0, time, 12)
			b.output(1, time+1, 12)
		}
		b.scanAll()
		b.spill(0)
		due := b.begin(all)
		for _, want := range due[:stop] {
			b.next(want)
		}
		b.finish()
		for _, l := range b.lanes {
			l.pending = nil
		}
		b.m.Abandon()
		require.Nil(t, next(b.m))
		b.m.End()
		require.Zero(t, b.m.Spilled())
		b.output(0, 50, 12)
		b.output(1, 45, 12)
		b.scanAll()
		require.NotZero(t, b.spill(0), "its block is free")
		b.round(all)
		b.empty()
	}
}
