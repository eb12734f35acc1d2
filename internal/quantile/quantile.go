// Package quantile finds quantiles: of a list of values, and of a stream of them.
package quantile

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Of is the smallest value that a share q of all does not exceed, 0 of none. It sorts them.
func Of[T cmp.Ordered](values []T, q float64) (v T) {
	if len(values) == 0 {
		return v
	}
	slices.Sort(values)
	return values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]
}

// Histogram counts values by size: exactly below 16, then in 16 steps per power of two, so that a
// quantile is within 7 %. The zero Histogram is empty. One goroutine at a time adds, all may read.
type Histogram struct {
	counts [61 * 16]atomic.Uint64
	max    atomic.Uint64
}

// Add counts a value.
func (h *Histogram) Add(v uint64) {
	low := max(0, bits.Len64(v)-5) // bits below the five highest, of which the first is always set
	if v > h.max.Load() {          // a store each time would be an exchange on amd64
		h.max.Store(v)
	}
	h.counts[low*16+int(v>>low)].Add(1)
}

// Merge adds the values of another one.
func (h *Histogram) Merge(o *Histogram) {
	h.max.Store(max(h.max.Load(), o.max.Load()))
	for i := range o.counts {
		h.counts[i].Add(o.counts[i].Load())
	}
}

// Len is how many values there are.
func (h *Histogram) Len() (n uint64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Max is the greatest value, 0 if there are none.
func (h *Histogram) Max() uint64 { return h.max.Load() }

// Quantile is Of by steps: the greatest value of the step that holds it, but no more than Max.
func (h *Histogram) Quantile(q float64) uint64 {
	rank, seen := q*float64(h.Len()), uint64(0)
	for i := range h.counts {
		n := h.counts[i].Load()
		if seen += n; n > 0 && float64(seen) >= rank {
			low := max(0, i/16-1)
			return min(uint64(i-low*16+1)<<low-1, h.Max())
		}
	}
	return 0
}
