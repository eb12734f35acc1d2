package perfbuf

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelClock returns a function that reads CLOCK_MONOTONIC in ns as the kernel has it, that is, as
// PERF_SAMPLE_TIME and bpf_ktime_get_ns do. In a time namespace the clock that programs see is
// shifted; /proc says by how much.
func kernelClock() func() uint64 {
	shift := monotonicShift()
	return func() uint64 {
		var ts unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
		return uint64(ts.Nano() - shift)
	}
}

// monotonicShift is how many ns our time namespace adds to CLOCK_MONOTONIC: 0 for nearly everybody,
// and where the kernel is too old (5.6) to have them.
func monotonicShift() int64 {
	b, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var sec, nsec int64
		if n, _ := fmt.Sscanf(line, "monotonic %d %d", &sec, &nsec); n == 2 {
			return sec*1e9 + nsec
		}
	}
	return 0
}
