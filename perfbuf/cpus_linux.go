package perfbuf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// onlineCPUs returns the numbers of the CPUs that are online now, in order.
func onlineCPUs() ([]int, error) {
	const file = "/sys/devices/system/cpu/online"
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("perfbuf.Open: which CPUs are online (is sysfs mounted at /sys?): %w", err)
	}
	cpus, err := parseCPUs(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, fmt.Errorf("perfbuf.Open: %s: %w", file, err)
	}
	return cpus, nil
}

// possibleCPUs returns the numbers of the CPUs that may ever come online.
func possibleCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/possible")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads the kernel's list format, such as "0-3,8,10-11".
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, span := strings.Cut(part, "-")
		if !span {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 0 || last < first || last > 1<<16 {
			return nil, fmt.Errorf("cannot read CPU list %q", list)
		}
		for c := first; c <= last; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}
