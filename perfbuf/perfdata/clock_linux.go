package perfdata

import "golang.org/x/sys/unix"

// monotonic is CLOCK_MONOTONIC in ns, 0 if it cannot be read.
func monotonic() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}
