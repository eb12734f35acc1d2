package stream

import (
	"cmp"
	"math"
	"slices"
)

// plan is the remaining work of a pass over all rings. There is one such pass at a time.
type plan struct {
	visits []*Ring // scratch
	order  []*Ring // still to be visited
	extra  uint64  // bytes beyond their first contents that nearly full rings may still yield
	open   int     // rings whose first contents have not all been read
	visit  uint64  // most bytes per visit: 1/8 of the smallest ring, which may fill up then
	fresh  uint64  // bytes that may be read before the next look
	read   uint64  // bytes since the latest look
}

// leastVisit is the least limit of a visit, in bytes: a visit costs some hundred ns. Twice the
// limit cut the time to drain full rings of 64 KiB to 0.92, but lost 1.6 times as many events where
// one ring of 64 was hot and the reader paused now and then.
const leastVisit = 32 << 10

// planPass makes the present contents of each ring the goal of the pass.
func (r *Rings) planPass() {
	p := &r.plan
	p.extra, p.open, p.visits = 0, 0, p.visits[:0]
	p.visit = math.MaxUint64
	for _, ring := range r.all() {
		p.visit = min(p.visit, ring.Raw.Size()/8)
		tail, head := ring.measure()
		ring.target = head
		if int64(head-tail) > 0 { // false for a head that went back
			p.extra += ring.used
			p.open++
			p.visits = append(p.visits, ring)
		}
	}
	p.visit = max(p.visit, leastVisit)
	p.read = 1 // so that arrange calls order
	r.arrange()
}

// replan looks at all rings again, and plans to visit those worth reading.
func (r *Rings) replan() {
	p := &r.plan
	p.visits = p.visits[:0]
	for _, ring := range r.all() {
		if tail, _ := ring.measure(); int64(ring.target-tail) > 0 || p.extra > 0 && ring.used > ring.Raw.Size()/2 {
			p.visits = append(p.visits, ring)
		}
	}
	r.arrange()
}

// measure loads a ring's tail and head, and notes its load.
func (r *Ring) measure() (tail, head uint64) {
	tail, head = r.Raw.Tail(), r.Raw.Head()
	r.grown, r.looked = head-r.looked, head
	r.used = min(head-tail, r.Raw.Size())
	return tail, head
}

// arrange sorts the rings to visit.
func (r *Rings) arrange() {
	p := &r.plan
	p.fresh = max(p.visit, uint64(len(r.all()))<<10) // a look costs a few ns per ring
	p.order = p.visits
	if len(p.visits) < 2 {
		return
	}
	// Rings of CPUs that came later are at the end. Ring buffers have no CPU.
	slices.SortFunc(p.visits, func(a, b *Ring) int { return cmp.Or(a.Raw.CPU()-b.Raw.CPU(), a.index-b.index) })
	if p.read > 0 { // else order may have left out a ring: visit all
		r.order(p.visits)
	}
	p.read = 0
}

// nextVisit returns the ring to read next, and the offset to stop at. It returns nil if the pass is
// over.
func (r *Rings) nextVisit() (ring *Ring, upTo uint64) {
	p := &r.plan
	for p.open > 0 {
		if len(p.order) == 0 || p.fresh == 0 {
			if r.replan(); len(p.order) == 0 {
				break
			}
		}
		ring = p.order[0]
		p.order = p.order[1:]
		if ring == nil {
			continue // order has left this ring out
		}
		tail := ring.Raw.Tail()
		if left := ring.target - tail; int64(left) > 0 {
			return ring, tail + min(left, p.visit)
		}
		if p.extra > 0 {
			return ring, tail + min(p.extra, p.visit)
		}
	}
	return nil, 0
}

// visited notes that the pass has read so many bytes of a ring, up to its tail.
func (r *Rings) visited(ring *Ring, bytes uint64) {
	p := &r.plan
	p.read += bytes
	p.fresh -= min(p.fresh, bytes)
	beyond := ring.Raw.Tail() - ring.target
	switch {
	case int64(beyond) >= int64(bytes): // its first contents had been read before
		p.extra -= min(p.extra, bytes)
	case int64(beyond) >= 0:
		p.extra -= min(p.extra, beyond)
		p.open--
	case bytes == 0: // the head went back, or the first record is busy: nothing to read
		ring.target = ring.Raw.Tail()
		p.open--
	}
}
