package quantile

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	require.Zero(t, Of([]int(nil), 0.5))
	for q, want := range map[float64]int{0: 1, 0.25: 1, 0.26: 2, 0.5: 2, 0.75: 3, 0.99: 4, 1: 4} {
		require.Equal(t, want, Of([]int{3, 1, 4, 2}, q), q)
	}
}

func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var h, all Histogram
	require.Zero(t, all.Quantile(0.5))
	var values []uint64
	add := func(v uint64) {
		values = append(values, v)
		if h.Add(v); r.IntN(10) == 0 {
			all.Merge(&h)
			h = Histogram{}
		}
	}
	for i := range 64 { // the steps' edges
		for _, v := range []uint64{1<<i - 1, 1 << i, 1<<i + 1<<i/16, 1<<i + 1<<i/2} {
			add(v)
		}
	}
	for range 1000 {
		add(r.Uint64() >> r.IntN(64))
	}
	add(math.MaxUint64)
	all.Merge(&h)
	require.EqualValues(t, len(values), all.Len())
	require.EqualValues(t, uint64(math.MaxUint64), all.Max())
	for q := 0.; q <= 1; q += 1. / 1024 {
		want, got := Of(values, q), all.Quantile(q)
		require.GreaterOrEqual(t, got, want)
		require.LessOrEqual(t, float64(got), 1.07*float64(want))
	}
}

func TestHistogramOfOne(t *testing.T) {
	var h Histogram
	h.Add(1_000_000_000)
	require.EqualValues(t, 1_000_000_000, h.Quantile(0.5))
}
