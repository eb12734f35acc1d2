package stream

import (
	"math"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

func TestBudget(t *testing.T) {
	for _, c := range []struct{ budget, blocks int }{{0, 0}, {block - 1, 0}, {block, 1}, {2*block - 1, 1}, {2 * block, 2}} {
		b := setup{rings: 2, size: large, spill: c.budget}.bench(t)
		for time := uint64(1); b.lanes[1].room() > 6000; time++ {
			b.output(0, time, 5000)
			b.output(1, time, 5000)
		}
		b.scanAll()
		for n := range 4 {
			bytes := b.spill(n % 2)
			require.Equal(t, n < c.blocks, bytes > 0, "%d of %+v", n, c)
			require.Equal(t, uint64(min(n+1, c.blocks)*block), b.m.spilled())
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

// Damaged bytes need no memory.
func TestSpillOfDamageTakesNoMemory(t *testing.T) {
	b := setup{rings: 1, size: large}.bench(t)
	b.damage(0, large/2)
	require.Equal(t, uint64(large/2), b.spill(0), "longer than a block")
	b.throttle(0, 1000)
	b.damage(0, 64)
	b.output(0, 20, 12)
	b.scanAll()
	require.Zero(t, b.spill(0), "the sample does")
	b.round(all)
	b.empty()
}

// A record with a key far ahead waits for long. Records behind it must still leave the ring,
// delivered or not.
func TestSpillOfOneThatIsFarAhead(t *testing.T) {
	const start = math.MaxUint64 - large + 1
	b := setup{rings: 1, size: large, start: start, kind: laneKind{keyed: true}, spill: block}.bench(t)
	require.True(t, b.outputKey(0, 1, 1<<40, 3000))
	write := func(n int) {
		for range n {
			require.True(t, b.output(0, b.ids+1, 3000))
		}
		b.scanAll()
	}
	write(70)
	b.round(1000)
	require.Equal(t, uint64(start), b.lanes[0].Tail(), "it holds all that was delivered")
	require.Greater(t, b.spill(0), uint64(200000), "all behind it was delivered")
	require.Equal(t, uint64(block), b.m.spilled())
	write(60)
	b.round(1000)
	require.Equal(t, b.lanes[0].Head(), b.lanes[0].Tail(), "it no longer holds anything up")
	write(60)
	require.Zero(t, b.spill(0), "no memory")
	b.round(all)
	b.empty()
}

// All records of a ring but the first are early: chunks end between early ones, too.
func TestSpillOfEarlyOnes(t *testing.T) {
	b := setup{rings: 1, size: large, start: 1<<32 - 4096, kind: laneKind{keyed: true}, spill: 3 * block}.bench(t)
	b.outputKey(0, 1, 1<<40, 5000)
	for b.lanes[0].room() > 6000 {
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

// A spill invalidates the item before: its bytes are freed, and its block is used again.
func TestSpillEndsAnItemsLife(t *testing.T) {
	h := byHand(t, 512, perfRings(512, wrap)...)
	h.scanned(0, 1, 2, 3)
	h.begin(all)
	require.Equal(t, uint64(1), next(h.merger).Key)
	require.Equal(t, uint64(64), h.spill(0), "the first one's bytes are freed, not copied")
	require.Equal(t, h.writers[0].Head(), h.writers[0].Tail())
	require.Equal(t, uint64(2), next(h.merger).Key)
	require.Zero(t, h.spill(0), "nothing is left")
	require.Equal(t, []uint64{512, 512}, []uint64{h.spilled(), h.rings[0].copied()})
	require.Equal(t, uint64(3), next(h.merger).Key)
	require.Equal(t, uint64(512), h.spilled(), "the last one is with the user")
	h.scanned(0, 4)
	require.Equal(t, uint64(32), h.spill(0))
	require.Nil(t, next(h.merger))
	h.end()
	h.round(samples(0, 4)...)
	h.drained()
}

// A chunk ends where a record begins, even at the block's very end, and never at an added loss,
// which is in no record.
func TestSpillEndsWhereARecordBegins(t *testing.T) {
	for _, c := range []struct {
		size  int    // of records
		back  uint64 // from one's time to the next's
		bytes int    // spilled
		// A record of 24 bytes ends 8 bytes behind the block.
	}{{64, 0, block}, {64, 9, block}, {24, 0, block - 16}} {
		h := byHand(t, block, perfRings(large, 0)...)
		r, time := h.perf(0), uint64(1<<20)
		output := func() {
			time -= c.back
			require.NoError(t, r.Output(time, make([]byte, c.size-20)))
		}
		for r.Head() <= block {
			output()
		}
		h.scan(0)
		h.lose(0, 3, 1<<20)
		output()
		h.scan(0)
		require.Equal(t, uint64(c.bytes), h.spill(0))
		kinds := map[raw.Kind]int{}
		h.begin(all)
		for it := next(h.merger); it != nil; it = next(h.merger) {
			kinds[it.Kind]++
		}
		h.end()
		require.Equal(t, map[raw.Kind]int{raw.Sample: int(r.Head()) / c.size, raw.Lost: 1}, kinds)
	}
}

// A record larger than a block stays in the ring. Once delivered, it is freed with those behind it.
func TestSpillOfLargeRecords(t *testing.T) {
	const block = 128 << 10
	h := byHand(t, 10<<20, ringtest.NewRingBuf(512<<10, wrap))
	h.write(0, 50)
	big := h.reserve(0, 60, block+8)
	h.scanned(0, 50)
	require.Equal(t, uint64(24), h.spill(0), "up to the busy one")
	require.Zero(t, h.spill(0))
	big.Commit(0)
	h.scan(0)
	require.Zero(t, h.spill(0), "it is too large, and never copied in part")
	h.round(samples(0, 50, 50, 60)...)
	h.drained()

	fits := h.reserve(0, 70, block-8)
	fits.Write(block-16, []byte{99})
	fits.Commit(0)
	h.scanned(0, 80)
	require.Equal(t, uint64(block), h.spill(0), "one that is as large as a block")
	h.begin(all)
	it := next(h.merger)
	require.Equal(t, []any{uint64(70), byte(99)}, []any{it.Time, it.Data[block-16]})
	h.end()
}

// Free blocks for rings of one size make room for those of another, and no longer count.
func TestSpillGivesUpBlocksOfOtherSizes(t *testing.T) {
	h := byHand(t, 1024, append(perfRings(512, 0), perfRings(1024, 0)...)...)
	for n := range uint64(6) {
		i := int(n % 2)
		h.scanned(i, n)
		require.Equal(t, uint64(32), h.spill(i))
		h.round(samples(i, n)...)
	}
}
