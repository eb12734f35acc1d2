// Package cpulist reads the kernel's lists of CPUs.
package cpulist

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Dir is sysfs's directory of CPUs.
const Dir = "/sys/devices/system/cpu/"

// Online returns the numbers of the CPUs that are online now, in order: the kernel's
// cpu_online_mask, whose bits num_online_cpus counts. dir is Dir, except in tests.
func Online(dir string) ([]int, error) { return read(dir, "online") }

// Possible returns the numbers of the CPUs that may ever come online, in order.
func Possible(dir string) ([]int, error) { return read(dir, "possible") }

func read(dir, which string) ([]int, error) {
	b, err := os.ReadFile(dir + which)
	if err != nil {
		return nil, fmt.Errorf("cannot read which CPUs are %s (is sysfs mounted at /sys?): %w", which, err)
	}
	cpus, err := Parse(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", dir, which, err)
	}
	return cpus, nil
}

// Parse reads the kernel's format, such as "0-3,8,10-11", with or without a newline.
func Parse(list string) (cpus []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
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
