//go:build linux && cgo

package main

import (
	"math/bits"
	"time"
)

// subBits sets a histogram's resolution: a bucket is 1/32 of its values wide.
const subBits = 5

// histogram counts ns.
type histogram struct {
	buckets [(65 - subBits) << subBits]uint64
	max     uint64
}

func (h *histogram) add(ns uint64) {
	shift := max(bits.Len64(ns)-subBits-1, 0)
	h.buckets[shift<<subBits+int(ns>>shift)]++
	h.max = max(h.max, ns)
}

// quantile returns the value that a share q does not exceed, within 1/32 of it.
func (h *histogram) quantile(q float64) time.Duration {
	var total uint64
	for _, n := range h.buckets {
		total += n
	}
	rank := uint64(q * float64(total))
	for i, n := range h.buckets {
		if n > rank {
			shift := max(i>>subBits-1, 0)
			low := uint64(i-shift<<subBits) << shift
			return time.Duration(low + (1<<shift-1)/2)
		}
		rank -= n
	}
	return 0
}

func (h *histogram) merge(o *histogram) {
	for i, n := range &o.buckets {
		h.buckets[i] += n
	}
	h.max = max(h.max, o.max)
}
