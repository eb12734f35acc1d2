package perfbuf

import (
	"cmp"
	"slices"
)

// Schedule chooses the order in which a pass over a [Reader] visits rings. [FullestFirst],
// [SoonestFull], [RoundRobin] and [FixedOrder] make the usual ones.
//
// A pass looks at all rings, asks for the order, and reads from each in turn, an eighth of a ring or 32
// KiB at most. When it has read enough for the picture to have changed, it looks again. It ends when
// all that was there at its beginning has been read. Until then, rings more than half full are read
// beyond that, but in all no more than as much again: so no fast producer holds a pass up for ever, and
// no ring starves, whatever the order is.
type Schedule interface {
	// Order sorts loads, which come by CPU number, into the order in which their rings are to be read.
	// It must only move them, and not keep the slice. It is called within a pass, by its goroutine.
	Order(loads []Load)
}

// Load says how full a ring is.
type Load struct {
	CPU   int
	Size  int // data bytes
	Used  int // bytes that the ring holds
	Grown int // bytes that have come since the look before, over the same time for all rings

	ring *Ring
}

// ScheduleFunc is a function as a Schedule.
type ScheduleFunc func(loads []Load)

// Order calls f.
func (f ScheduleFunc) Order(loads []Load) { f(loads) }

// FullestFirst is the default Schedule: the ring with the largest share in use comes first.
func FullestFirst() Schedule { return ScheduleFunc(fullestFirst) }

func fullestFirst(loads []Load) {
	// All rings of a Reader are of one size.
	slices.SortStableFunc(loads, func(a, b Load) int { return cmp.Compare(b.Used, a.Used) })
}

// SoonestFull is the Schedule by which the ring comes first that will be full soonest if all go on
// filling up as fast as they just did. One that is full comes before all others. So does one that is full
// but for an eighth and has not grown: the outputs to it may be larger than the room that is left.
func SoonestFull() Schedule { return ScheduleFunc(soonestFull) }

func soonestFull(loads []Load) { slices.SortStableFunc(loads, sooner) }

// sooner compares two rings by when they will be full. It is a strict weak order.
func sooner(a, b Load) int {
	when := a.full()
	if when != b.full() {
		return cmp.Compare(when, b.full())
	}
	if when == fullLater { // room/rate, compared without dividing
		return cmp.Compare((a.Size-a.Used)*b.Grown, (b.Size-b.Used)*a.Grown)
	}
	return cmp.Compare(b.Used, a.Used)
}

// When a ring will be full.
const (
	fullNow = iota
	fullLater
	fullNever
)

func (l Load) full() int {
	switch room := l.Size - l.Used; {
	case room <= 0, l.Grown == 0 && room < l.Size/8:
		return fullNow
	case l.Grown > 0:
		return fullLater
	default:
		return fullNever
	}
}

// FixedOrder is the Schedule by which rings come by CPU number.
func FixedOrder() Schedule { return ScheduleFunc(func([]Load) {}) }

// RoundRobin returns a Schedule by which rings come by CPU number, each time beginning with the one behind
// that which came first the last time. It is for one Reader.
func RoundRobin() Schedule {
	last := -1 // CPU
	return ScheduleFunc(func(loads []Load) {
		i := 0
		for i < len(loads) && loads[i].CPU <= last {
			i++
		}
		if i == len(loads) {
			i = 0
		}
		rotate(loads, i)
		last = loads[0].CPU
	})
}

// rotate moves the first n to the end.
func rotate(loads []Load, n int) {
	slices.Reverse(loads[:n])
	slices.Reverse(loads[n:])
	slices.Reverse(loads)
}

// plan is what a pass over all rings has before it. It belongs to the Reader, which has one pass at a time.
type plan struct {
	loads []Load // scratch
	order []Load // still to be visited
	extra uint64 // bytes that rings nearly full may still be read beyond what they held at the beginning
	open  int    // rings of which something is still to be read that they held at the beginning
	fresh uint64 // bytes that may still be read until the next look
	read  uint64 // bytes since the latest look
}

// leastQuantum is how many bytes are worth a visit, which takes some hundred ns.
const leastQuantum = 32 << 10

// planPass sets out what each ring holds as what the pass has to read.
func (r *Reader) planPass() {
	p := &r.plan
	p.extra, p.open = 0, 0
	for _, ring := range r.all() {
		ring.target = ring.raw.Head()
		if held := ring.target - ring.raw.Tail(); int64(held) > 0 { // not a head that went back
			p.extra += min(held, ring.raw.Size())
			p.open++
		}
	}
	p.read = 1 // progress, so to say
	r.replan()
}

// replan looks at all rings that there is reason to read.
func (r *Reader) replan() {
	p := &r.plan
	p.loads = p.loads[:0]
	for _, ring := range r.all() {
		tail, head := ring.raw.Tail(), ring.raw.Head()
		grown := head - ring.looked
		ring.looked = head
		used := min(head-tail, ring.raw.Size())
		if int64(ring.target-tail) > 0 || p.extra > 0 && used > ring.raw.Size()/2 {
			p.loads = append(p.loads, Load{CPU: ring.cpu, Size: ring.Size(), Used: int(used), Grown: int(min(grown, 1<<31)), ring: ring})
		}
	}
	// Rings of CPUs that came later are at the end.
	slices.SortFunc(p.loads, func(a, b Load) int { return a.CPU - b.CPU })
	p.fresh = max(r.rings[0].raw.Size()/8, leastQuantum, uint64(len(r.all()))<<10) // a look costs some ns per ring
	p.order = p.loads
	if len(p.loads) > 1 && p.read > 0 { // else the Schedule has lost a ring: visit all
		r.opts.Schedule.Order(p.loads)
	}
	p.read = 0
}

// nextVisit returns the ring to read next, and up to where, or nil if the pass is over.
func (r *Reader) nextVisit() (ring *Ring, upTo uint64) {
	p := &r.plan
	for p.open > 0 {
		if len(p.order) == 0 || p.fresh == 0 {
			if r.replan(); len(p.order) == 0 {
				break
			}
		}
		ring = p.order[0].ring
		p.order = p.order[1:]
		if ring == nil {
			continue // a Schedule has put a Load of its own there
		}
		tail, quantum := ring.raw.Tail(), max(ring.raw.Size()/8, leastQuantum)
		if left := ring.target - tail; int64(left) > 0 {
			return ring, tail + min(left, quantum)
		}
		if p.extra > 0 {
			return ring, tail + min(p.extra, quantum)
		}
	}
	return nil, 0
}

// visited takes into account that bytes of a ring have been read, up to its tail.
func (r *Reader) visited(ring *Ring, bytes uint64) {
	p := &r.plan
	p.read += bytes
	p.fresh -= min(p.fresh, bytes)
	beyond := ring.raw.Tail() - ring.target
	switch {
	case int64(beyond) >= int64(bytes): // what it held at the beginning had been read before
		p.extra -= min(p.extra, bytes)
	case int64(beyond) >= 0:
		p.extra -= min(p.extra, beyond)
		p.open--
	case bytes == 0: // a head that went back: there is nothing
		ring.target = ring.raw.Tail()
		p.open--
	}
}
