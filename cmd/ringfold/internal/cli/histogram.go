package cli

import "math/bits"

// Histogram counts values by size: exactly below 16, then in 16 steps per power of two, so that a quantile is within 7 %.
// The zero Histogram is empty.
type Histogram struct {
	counts [61 * 16]uint64
	n, max uint64
}

// Add counts a value.
func (h *Histogram) Add(v uint64) {
	low := max(0, bits.Len64(v)-5) // bits below the five highest, of which the first is always set
	h.counts[low*16+int(v>>low)]++
	h.n++
	h.max = max(h.max, v)
}

// Len is how many values there are.
func (h *Histogram) Len() uint64 { return h.n }

// Max is the greatest value, 0 if there are none.
func (h *Histogram) Max() uint64 { return h.max }

// Quantile is the greatest value of the step that holds it, but no more than Max. It is 0 if there are no values.
func (h *Histogram) Quantile(q float64) uint64 {
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && float64(seen) >= q*float64(h.n) {
			low := max(0, i/16-1)
			return min(uint64(i-low*16+1)<<low-1, h.max)
		}
	}
	return 0
}
