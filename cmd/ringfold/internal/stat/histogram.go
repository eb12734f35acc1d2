package stat

import "math/bits"

// histogram counts values by size: exactly below 16, then in 16 steps per power of two, so that a quantile is within 7 %.
type histogram struct {
	counts   [61 * 16]uint64
	n        uint64
	greatest uint64
}

func (h *histogram) add(v uint64) {
	low := max(0, bits.Len64(v)-5)
	h.counts[low*16+int(v>>low)]++
	h.n++
	h.greatest = max(h.greatest, v)
}

// quantile is the greatest value of the step that holds it, but no more than there was.
func (h *histogram) quantile(q float64) uint64 {
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && float64(seen) >= q*float64(h.n) {
			low := max(0, i/16-1)
			return min(uint64(i-low*16+1)<<low-1, h.greatest)
		}
	}
	return 0
}

// delay is nil if there are no values.
func (h *histogram) delay() *delay {
	if h.n == 0 {
		return nil
	}
	const s = 1e9
	return &delay{float64(h.quantile(0.5)) / s, float64(h.quantile(0.99)) / s, float64(h.greatest) / s}
}
