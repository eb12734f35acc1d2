package demo

import "math/bits"

// histogram counts values by size: exactly below 16, then in 16 steps per power of two, so that a
// quantile is within 7 %.
type histogram struct {
	counts [61 * 16]uint64
	total  uint64
}

func (h *histogram) add(v uint64) {
	h.counts[step(v)]++
	h.total++
}

// step is the five highest bits of v, of which the first is always set, and how many are below them.
func step(v uint64) int {
	low := max(0, bits.Len64(v)-5)
	return low*16 + int(v>>low)
}

// quantile returns the greatest value of the step that holds it, 0 if there are no values.
func (h *histogram) quantile(q float64) uint64 {
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && float64(seen) >= q*float64(h.total) {
			low := max(0, i/16-1)
			return uint64(i-low*16+1)<<low - 1
		}
	}
	return 0
}
