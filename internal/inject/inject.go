// Package inject is how perfbuftest makes a perfbuf.Reader whose rings no kernel writes. It keeps
// what only that needs out of perfbuf's API.
package inject

import (
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/raw"
)

// NewReader makes a *perfbuf.Reader on k, given perfbuf.Options. Package perfbuf sets it.
var NewReader func(k Kernel, options any) (reader any, err error)

// Slot is what an entry of the map holds.
type Slot uint8

const (
	// SlotEmpty is nothing: outputs fail with ENOENT.
	SlotEmpty Slot = iota
	// SlotPlain is the ring's perf event, which wakes readers as Options.Wakeup says.
	SlotPlain
	// SlotBell is the ring's other perf event, of which each output wakes readers.
	SlotBell
)

// Kernel stands in for the kernel and for libbpf. Functions may be called from any goroutine, unless
// Barrier is set: then everything happens where the user's calls and the simulation do.
type Kernel struct {
	CPUs []int // of the rings, ascending

	// Map makes the rings, one per CPU, of ringBytes data bytes each; noTime says that records have no
	// time.
	Map func(ringBytes int, noTime bool) []*raw.Ring

	// Clock is CLOCK_MONOTONIC in ns.
	Clock func() uint64

	// Wakes has a value when the kernel wakes readers: of capacity 1, sent to without blocking.
	Wakes <-chan struct{}

	// Grace waits until every program that is running has finished.
	Grace func() error

	// Lost is how many outputs to a ring have failed for want of room, PERF_FORMAT_LOST. It is nil in
	// a kernel before 6.0.
	Lost func(ring int) uint64

	// Slot sets a ring's entry in the map, SlotPlain at first. Programs that have found the one before
	// still use that. Without it, there is no doorbell and no Pause.
	Slot func(ring int, to Slot) error

	// Unhook takes the rings out of the map, for good: outputs fail with ENOENT from now on.
	Unhook func()

	// Free unmaps the rings.
	Free func()

	// Yield, if not nil, is called wherever the reader's steps and the kernel's may interleave in a
	// way that matters: between two loads of heads, after a store of a tail.
	Yield func()

	// Barrier, if not nil, is handed the barrier of an ordered stream instead of its being started:
	// the simulation calls its Round when it is Requested.
	Barrier func(*grace.Barrier)
}
