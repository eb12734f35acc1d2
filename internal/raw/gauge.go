package raw

import "sync/atomic"

// Gauge tells the programs of a perf ring's CPU how full it is: struct perfbuf_cpu of
// bpf/perfbuf_lanes.h. Programs add up the words of 8 bytes that they have output, and find those
// that are in the ring by what the Gauge says has left it.
type Gauge struct {
	Taken   *uint32   // shared with the programs
	Written []*uint64 // of each lane: words in the high half; the programs write them

	// By how much the programs' sum was ahead of the head, in words, when both were last known.
	// They differ by what the counters and the ring began with, by records that report losses, and
	// by outputs that are not counted.
	ahead uint32
}

// publish tells programs how far a ring has been read.
func (g *Gauge) publish(r *Ring) {
	// An output is in the head before it is counted. So if the sum is the same before and after the
	// load of the head, it lacks at most outputs that are being counted, and the ring looks fuller
	// by these until the next call. If programs keep outputting, the difference of before will do:
	// it rarely changes.
	for range 3 {
		before := g.sum()
		head := r.Head()
		if g.sum() == before {
			g.ahead = before - uint32(head/8)
			break
		}
	}
	atomic.StoreUint32(g.Taken, uint32(r.Tail()/8)+g.ahead)
}

func (g *Gauge) sum() (words uint32) {
	for _, w := range g.Written {
		words += uint32(atomic.LoadUint64(w) >> 32)
	}
	return words
}
