package host

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Clock is the kernel's own CLOCK_MONOTONIC, which PERF_SAMPLE_TIME and bpf_ktime_get_ns use, or
// CLOCK_BOOTTIME, that of bpf_ktime_get_boot_ns. In a time namespace user space sees them shifted;
// /proc has the offsets. NewClock makes one.
type Clock struct {
	id    int32
	shift int64
}

// NewClock fails if the shift is unknown.
func NewClock(boot bool) (Clock, error) {
	id, name := int32(unix.CLOCK_MONOTONIC), "monotonic"
	if boot {
		id, name = unix.CLOCK_BOOTTIME, "boottime"
	}
	shift, err := clockShift(name)
	if err != nil {
		err = fmt.Errorf("this process is in a time namespace of unknown offset, so its clock cannot be compared with that of events: %w", err)
	}
	return Clock{id, shift}, err
}

// Now returns the time in ns.
func (c Clock) Now() uint64 {
	var ts unix.Timespec
	unix.ClockGettime(c.id, &ts) // cannot fail for these clocks
	return uint64(ts.Nano() - c.shift)
}

// initialTimeNamespace has the inode TIME_NS_INIT_INO of include/uapi/linux/nsfs.h. It shifts
// nothing.
const initialTimeNamespace = "time:[4026531834]"

// clockShift returns the ns that this time namespace adds to a clock. It is nearly always 0, and
// always on kernels before 5.6, which lack time namespaces. The offsets in /proc are those of the
// children's namespace (proc_timens_show_offsets in kernel/time/namespace.c). After
// unshare(CLONE_NEWTIME) that is not ours.
func clockShift(clock string) (int64, error) {
	own, err := os.Readlink("/proc/self/ns/time")
	if err != nil || own == initialTimeNamespace {
		return 0, nil
	}
	childrens, err := os.Readlink("/proc/self/ns/time_for_children")
	if err != nil {
		return 0, err
	}
	if childrens != own {
		return 0, errors.New("it has made another one for its children, and the kernel now shows the offset of that alone: " +
			"open the reader in a process that has not called unshare(CLONE_NEWTIME)")
	}
	b, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var name string
		var sec, nsec int64
		if n, _ := fmt.Sscan(line, &name, &sec, &nsec); n == 3 && name == clock {
			return sec*1e9 + nsec, nil
		}
	}
	return 0, fmt.Errorf("/proc/self/timens_offsets has no offset of the %s clock: %q", clock, b)
}
