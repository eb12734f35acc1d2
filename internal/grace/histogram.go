package grace

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A power of two has 1<<subBits buckets, so a bucket's middle is within 1/16 of its values.
const subBits = 3

// histogram counts durations in buckets whose width grows with the duration.
type histogram struct {
	buckets [(65 - subBits) << subBits]atomic.Uint64
}

func (h *histogram) add(d time.Duration) { h.buckets[bucket(uint64(max(d, 0)))].Add(1) }

// quantile returns a duration that a share q of all counted ones do not exceed by more than the
// bucket's width, or 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	var counts [len(h.buckets)]uint64
	var total uint64
	for i := range h.buckets {
		counts[i] = h.buckets[i].Load()
		total += counts[i]
	}
	rank := uint64(q * float64(total)) // how many are below the wanted one
	for i, n := range counts {
		if n > rank {
			return middle(i)
		}
		rank -= n
	}
	return 0
}

// bucket returns which bucket counts v. The buckets of small values hold one value each.
func bucket(v uint64) int {
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// middle is the inverse of bucket: the middle of the values that bucket i counts.
func middle(i int) time.Duration {
	shift := max(i>>subBits-1, 0)
	low := uint64(i-shift<<subBits) << shift
	return time.Duration(low + (1<<shift-1)/2)
}
