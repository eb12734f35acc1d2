package cli

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	r := rand.New(rand.NewPCG(5, 6))
	var values []uint64
	for range 1000 {
		v := r.Uint64() >> r.IntN(64)
		values = append(values, v)
		h.Add(v)
	}
	h.Add(math.MaxUint64)
	values = append(values, math.MaxUint64)
	slices.Sort(values)
	for _, q := range []float64{0.01, 0.3, 0.5, 0.9, 0.99, 1} {
		want := values[int(math.Ceil(q*float64(len(values))))-1]
		got := h.Quantile(q)
		require.GreaterOrEqual(t, got, want)
		require.LessOrEqual(t, float64(got), 1.07*float64(want))
	}
}
