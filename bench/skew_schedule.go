package main

import (
	"cmp"
	"slices"

	"github.com/ringfold/ringfold/perfbuf"
)

// Orders in which a Reader visits its rings. "ringfold" is the default, the fullest ring first.
const (
	soonestFull = "ringfold-soonest-full"
	roundRobin  = "ringfold-round-robin"
	fixedOrder  = "ringfold-fixed-order"
)

var skewReaders = []string{ringfold, soonestFull, roundRobin, fixedOrder}

// schedule is a new one, nil for the default.
func schedule(reader string) perfbuf.Schedule {
	switch reader {
	case soonestFull:
		return func(loads []perfbuf.Load) { slices.SortStableFunc(loads, sooner) }
	case roundRobin:
		return newRoundRobin()
	case fixedOrder:
		return func([]perfbuf.Load) {}
	default:
		return nil
	}
}

// sooner compares two rings by when they will be full if they go on filling up as fast as they just did. It is a strict weak order.
func sooner(a, b perfbuf.Load) int {
	when := full(a)
	if when != full(b) {
		return cmp.Compare(when, full(b))
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

// full says when. A ring seven eighths full that has not grown counts as full: outputs may be larger than the room that is left.
func full(l perfbuf.Load) int {
	switch room := l.Size - l.Used; {
	case room <= 0, l.Grown == 0 && room < l.Size/8:
		return fullNow
	case l.Grown > 0:
		return fullLater
	default:
		return fullNever
	}
}

// newRoundRobin goes by CPU, and starts one ring further each time.
func newRoundRobin() perfbuf.Schedule {
	last := -1 // CPU
	return func(loads []perfbuf.Load) {
		i := max(0, slices.IndexFunc(loads, func(l perfbuf.Load) bool { return l.CPU > last }))
		copy(loads, slices.Concat(loads[i:], loads[:i]))
		last = loads[0].CPU
	}
}
