package main

import "github.com/ringfold/ringfold/perfbuf"

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
		return perfbuf.SoonestFull()
	case roundRobin:
		return perfbuf.RoundRobin()
	case fixedOrder:
		return perfbuf.FixedOrder()
	default:
		return nil
	}
}
