package suite

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
)

// Source is a map and the programs that output to it.
type Source struct {
	*workload.Programs
	Kind  string // "perf" or "ringbuf"
	Lanes bool   // programs may output to workload.Lane0 and Lane1
}

// Config says what map a Source is to have.
type Config struct {
	Kind    string // "perf" or "ringbuf"
	Entries int    // max_entries of a perf event array; 0: one for each possible CPU
	Bytes   int    // size of a ring buffer
	Lanes   bool   // of a perf event array
}

// syscallNumber is that of no system call: entering it runs the programs, and then it fails with
// ENOSYS. Another suite that runs at the same time has another one.
var syscallNumber = uint64(1<<20 + os.Getpid())

// NewSource loads the programs and makes the map.
func NewSource(c Config) (*Source, error) {
	s := &Source{Kind: c.Kind, Lanes: c.Lanes}
	if err := s.load(c); err != nil {
		return nil, fmt.Errorf("loading BPF programs, which takes root or CAP_BPF and CAP_PERFMON: %w", err)
	}
	return s, s.Aim(s.Map(), false)
}

// Map is the one that it outputs to.
func (s *Source) Map() workload.Map {
	if s.Kind == "ringbuf" {
		return workload.Shared
	}
	return workload.Events
}

// Probe says whether BPF programs can be loaded here.
func Probe() error {
	s, err := NewSource(Config{Kind: "perf"})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Output(0, workload.Output{Count: 1, Size: workload.HeaderSize})
}

// Source makes a map and loads programs.
func (t *T) Source(c Config) *Source {
	s, err := NewSource(c)
	t.must(err)
	t.Cleanup(s.Close)
	t.sources = append(t.sources, s)
	return s
}

// Perf makes a perf event array with an entry for each CPU.
func (t *T) Perf() *Source { return t.Source(Config{Kind: "perf"}) }

// Output has a source output, on one CPU, with flags of bpf_ringbuf_output.
func (t *T) Output(s *Source, cpu, count, size int, flags ...uint64) {
	o := workload.Output{Count: count, Size: size, To: s.Map()}
	for _, flag := range flags {
		o.Flags |= flag
	}
	t.must(s.Output(cpu, o))
}

// OutputOnSome is Output on each of some CPUs.
func (t *T) OutputOnSome(s *Source, count, size int) {
	for _, cpu := range t.some() {
		t.Output(s, cpu, count, size)
	}
}

// Counts returns a source's counts by CPU and level.
func (t *T) Counts(s *Source) []workload.CPUCounts {
	all, err := s.Counts()
	t.must(err)
	return all
}

// Total returns a source's counts by CPU.
func (t *T) Total(s *Source) []workload.Counts {
	total, err := s.Sums()
	t.must(err)
	return total
}

// Sum returns those of all CPUs.
func (t *T) Sum(s *Source) (sum workload.Counts) {
	for _, c := range t.Total(s) {
		sum.Add(&c)
	}
	return sum
}

// attach has a source output at the system calls of threads, until detach. Programs that are running then
// go on to their end.
func (t *T) attach(source *Source) (detach func()) {
	t.must(source.Attach(workload.Syscall))
	detach = sync.OnceFunc(func() { source.Detach() })
	t.Cleanup(detach)
	return detach
}

// load has a source output at system calls on all CPUs, and from timers, until stop.
func (t *T) load(source *Source, threads, group int, pause, tick time.Duration) (stop func()) {
	detach := t.attach(source)
	untick := func() {}
	if tick > 0 {
		var err error
		untick, err = source.Tick(t.CPUs(), tick)
		t.must(err)
		t.Cleanup(untick)
	}
	end := t.threads(t.CPUs(), threads, group, pause)
	return func() {
		end()
		untick()
		detach()
	}
}

// threads starts so many on each CPU, until stop or the scenario's end. They make system calls in groups
// that sources output at, and sleep in between; without a pause they never rest. Without groups they
// only spin.
func (t *T) threads(cpus []int, onEach, group int, pause time.Duration) (stop func()) {
	all, err := workload.Start(0, workload.Job{
		Kind: "calls", CPUs: cpus, Threads: onEach, Group: group, Pause: pause, Syscall: syscallNumber, Hotplug: true,
	})
	t.must(err)
	stop = sync.OnceFunc(func() { all.Stop() })
	t.Cleanup(stop)
	return stop
}

// runs returns the counts of outputs that interrupted none, by CPU: those of Output, where nothing else
// outputs.
func (t *T) runs(s *Source) (of []workload.Counts) {
	for _, c := range t.Counts(s) {
		of = append(of, c.Levels[0])
	}
	return of
}
