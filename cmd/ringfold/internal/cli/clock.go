package cli

import (
	"sync"

	"github.com/ringfold/ringfold/internal/host"
)

// clock is that of the kernel's, whatever time namespace this process is in.
var clock = sync.OnceValue(func() host.Clock {
	c, _ := host.NewClock() // where it is unknown, no reader opens
	return c
})

// Now returns the time as events have it, in ns of the kernel's CLOCK_MONOTONIC.
func Now() uint64 { return clock().Now() }

// Age returns how many ns ago that was: 0 of the future, which times that programs stamp may be in.
func Age(at uint64) uint64 { return max(Now(), at) - at }
