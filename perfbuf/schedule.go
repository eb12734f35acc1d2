package perfbuf

import (
	"cmp"
	"slices"

	"github.com/ringfold/ringfold/internal/walk"
)

// Schedule chooses the order in which a pass over a [Reader] visits rings. [FullestFirst],
// [SoonestFull], [RoundRobin] and [FixedOrder] return the usual ones.
//
// A pass looks at all rings, asks for the order, and reads from each in turn, an eighth of a ring or 32
// KiB at most. When the rings may have filled up differently meanwhile, it looks again. It ends when it
// has read all that was there at its beginning. It also reads newer events of rings that are more than
// half full, but at most as much again: so no fast producer holds a pass up forever, and no ring
// starves, whatever the order is.
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
	Grown int // bytes that have come since the previous look, over the same time for all rings

	ring *walk.Ring
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

// SoonestFull is the Schedule that reads first the ring that will be full soonest, if all go on filling
// up as fast as they just did. A full ring comes before all others. So does one that is seven eighths
// full and has not grown: outputs to it may be larger than the room that is left.
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

// FixedOrder is the Schedule that reads rings in order of their CPUs.
func FixedOrder() Schedule { return ScheduleFunc(func([]Load) {}) }

// RoundRobin returns a Schedule that reads rings in order of their CPUs, and starts one ring further each
// time. Make one for each Reader.
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

// order has the Schedule sort the rings that a pass is to visit.
func (r *Reader) order(rings []*walk.Ring) {
	r.loads = r.loads[:0]
	for _, ring := range rings {
		used, grown := ring.Look()
		r.loads = append(r.loads, Load{CPU: ring.Raw.CPU(), Size: int(ring.Raw.Size()), Used: used, Grown: grown, ring: ring})
	}
	r.opts.Schedule.Order(r.loads)
	for i, load := range r.loads {
		rings[i] = load.ring // nil if the Schedule has put a Load of its own there
	}
}
