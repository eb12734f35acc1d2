package grace

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogramQuantiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var h histogram
		require.Zero(t, h.quantile(0.5))
		all := make([]time.Duration, 1+rnd.IntN(1000))
		for i := range all {
			all[i] = time.Duration(math.Exp(rnd.Float64() * 40))
			h.add(all[i])
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.9, 0.99} {
			require.InEpsilon(t, all[int(q*float64(len(all)))], h.quantile(q), 0.07)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	last := -1
	for i := range 64 {
		for _, v := range []uint64{1<<i - 1, 1 << i, 1<<i + 1<<i/16, 1<<i + 1<<i/2} {
			b := bucket(v)
			require.GreaterOrEqual(t, b, last)
			require.LessOrEqual(t, b, last+8)
			require.Equal(t, b, bucket(uint64(middle(b))))
			last = b
		}
	}
	require.Equal(t, len(histogram{}.buckets)-1, bucket(math.MaxUint64))
	var h histogram
	h.add(-1)
	h.add(math.MaxInt64)
	require.Zero(t, h.quantile(0))
	require.InEpsilon(t, int64(math.MaxInt64), h.quantile(0.5), 0.07)
}
