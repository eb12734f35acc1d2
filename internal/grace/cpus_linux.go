package grace

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// cpuDir is sysfs's directory of CPUs.
const cpuDir = "/sys/devices/system/cpu/"

// onlineCPUs returns the numbers of the CPUs that are online now, in order: the kernel's
// cpu_online_mask, whose bits num_online_cpus counts. dir is cpuDir, but for tests.
func onlineCPUs(dir string) ([]int, error) {
	b, err := os.ReadFile(dir + "online")
	if err != nil {
		return nil, fmt.Errorf("which CPUs are online (is sysfs mounted at /sys?): %w", err)
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads the kernel's list format, such as "0-3,8,10-11".
func parseCPUs(list string) (cpus []int, err error) {
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
