package suite

import (
	"time"

	"github.com/ringfold/ringfold/conformance/wire"
	"github.com/ringfold/ringfold/internal/workload"
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

// report outputs once more on each CPU that has lost something, as the kernel reports losses with the next record.
func (s *Subject) report() {
	for _, source := range s.sources {
		if source.Kind != "perf" {
			continue
		}
		for cpu, c := range s.t.Total(source) {
			if c.Full > 0 {
				s.t.outputOne(source, cpu)
			}
		}
	}
	s.Settle()
}

// outputOne outputs on a CPU until an event is in its ring. A reader that has just delivered all of a full ring may not have said so to
// the kernel yet.
func (t *T) outputOne(source *Source, cpu int) {
	before := t.Total(source)[cpu].Written
	for end := time.Now().Add(t.patience); ; sleepMillis(1) {
		t.Output(source, cpu, 1, workload.HeaderSize)
		if t.Total(source)[cpu].Written > before {
			return
		}
		if time.Now().After(end) {
			t.Failf("the ring of CPU %d stays full, though all of it was delivered %v ago", cpu, t.patience)
		}
	}
}

// awaitPrograms waits for the programs that are running: they run inside RCU read sections, and MEMBARRIER_CMD_GLOBAL waits for
// a grace period. It does nothing on one CPU, where no program runs while this does.
func awaitPrograms() {
	const global = 1
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 { // with nohz_full
		sleepMillis(100)
	}
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
