package perfbuf

import (
	"sync"

	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/perfevent"
)

// Open sets up a ring for each CPU in the perf event array that mapFD refers to, and returns a
// reader of them. From then on outputs to the map land in the rings.
//
// mapFD may come from libbpfgo, cilium/ebpf, a pin or an id. Open duplicates it; you may close
// yours.
//
// Open does not block. It fails with a [*MapError] for a map that cannot be read, a
// [*PermissionError] where privilege is lacking (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN before
// Linux 5.8), in 32-bit programs with an error that wraps [errors.ErrUnsupported], and otherwise
// with one that wraps the errno. It refuses a process that is in a time namespace and has unshared
// another one, because the offset of its clock is then unknown. A failed Open leaves nothing
// behind. It calls perf_buffer__new_raw.
func Open(mapFD int, opts Options) (*Reader, error) {
	return OpenSource(&perfevent.Map{FD: mapFD}, opts)
}

// Now returns the time in ns of CLOCK_MONOTONIC, as the kernel stamps events with it: compare it
// with [Event.Time] for an event's age. clock_gettime(2) shows another time in a time namespace.
// Now does not block, and returns 0 where [Open] fails because the offset of the clock is unknown.
// Payloads and events of simulated kernels and recordings may have times of other clocks, or from
// the future.
func Now() uint64 {
	clock, err := kernelClock()
	if err != nil {
		return 0
	}
	return clock.Now()
}

var kernelClock = sync.OnceValues(func() (host.Clock, error) { return host.NewClock(false) })
