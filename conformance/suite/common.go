package suite

import (
	"fmt"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/conformance/workload"
	"golang.org/x/sys/unix"
)

// some returns CPUs that are online, four at most, the last among them.
func (t *T) some() []int {
	cpus := t.CPUs()
	if len(cpus) > 4 {
		cpus = append(cpus[:3:3], cpus[len(cpus)-1])
	}
	return cpus
}

// monotonic reads the clock of bpf_ktime_get_ns.
func monotonic() uint64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return uint64(ts.Nano())
}

// kernelBefore says whether the kernel is older than that version.
func kernelBefore(major, minor int) bool {
	var uts unix.Utsname
	var a, b int
	if unix.Uname(&uts) != nil {
		return false
	}
	fmt.Sscanf(unix.ByteSliceToString(uts.Release[:]), "%d.%d", &a, &b)
	return a < major || a == major && b < minor
}

// report outputs once more on each CPU that has lost something, as the kernel reports losses with the next record. Rings have room.
func (s *Subject) report() {
	for _, source := range s.sources {
		if source.Kind != "perf" {
			continue
		}
		for cpu, c := range s.t.Total(source) {
			if c.NoSpace > 0 {
				s.t.Output(source, cpu, 1, workload.HeaderSize)
			}
		}
	}
	s.Settle()
}

// checkGaps checks that each gap in a CPU's numbers has a report of as many losses in it. Nothing else may have been refused, and
// nothing but test runs may have output.
func (s *Subject) checkGaps() {
	s.With(func(st *State) {
		for i := range st.LostAnon {
			if st.LostAnon[i] > 0 {
				s.t.Cannotf("the reader reports losses without their CPU")
			}
		}
		type key struct{ source, cpu int }
		next, reported := map[key]uint64{}, map[key]uint64{}
		for _, item := range st.Items {
			k := key{item.Source, item.CPU}
			switch item.Type {
			case wire.Lost:
				reported[k] += item.Lost
			case wire.Event:
				k.cpu = item.Payload.CPU
				if gap := item.Payload.Seq - next[k]; gap != reported[k] {
					s.t.Failf("CPU %d: %d events are missing before event %d, where %d were reported as lost", k.cpu, gap, item.Payload.Seq, reported[k])
				}
				next[k], reported[k] = item.Payload.Seq+1, 0
			}
		}
	})
}
