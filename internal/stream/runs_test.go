package stream

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Runs of any lengths, none or empty ones among them, with many equal keys or few.
func TestMergeRunsSorts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var keys []uint64
		var ends []int
		spread := uint64(1) << rnd.IntN(64)
		longest := 1 + rnd.IntN(60)
		for range rnd.IntN(20) {
			run := make([]uint64, rnd.IntN(longest))
			for i := range run {
				run[i] = rnd.Uint64N(spread)
			}
			slices.Sort(run)
			keys = append(keys, run...)
			ends = append(ends, len(keys))
		}
		want := slices.Sorted(slices.Values(keys))
		if got := mergeRuns(keys, make([]uint64, len(keys)), ends); !slices.Equal(want, got) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// A piece's keys leave as many bits to the ring's index as there are rings, and no more.
func TestBitsOfAnIndex(t *testing.T) {
	for rings, bits := range map[int]uint{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 128: 7, 129: 8} {
		d := newRound(rings)
		require.Equal(t, bits, d.bits, "%d rings", rings)
		require.Equal(t, uint64(1)<<bits-1, d.mask)
	}
}
