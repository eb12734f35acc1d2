package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ringfold/ringfold/internal/workload"
	"golang.org/x/sys/unix"
)

// collection is the loaded workload: programs and maps of their own for each reader, so that all of
// them can be open at the same time.
type collection struct {
	*workload.Programs
	to    workload.Map
	bytes int // of the ring buffer
}

// load loads a collection for a reader. A ring buffer that is read beside perf event arrays has as many bytes in all as
// their rings have together, rounded up to a power of two.
func load(reader string, o options) (*collection, error) {
	c := &collection{to: workload.Events}
	config := workload.Config{}
	if o.ringBuf || reader == ciliumRingbuf {
		c.to = workload.Shared
		config.Bytes = o.ringBytes
		for !o.ringBuf && config.Bytes < o.ringBytes*len(cpus) {
			config.Bytes *= 2
		}
	}
	config.Maps, c.bytes = []workload.Map{c.to}, config.Bytes
	if o.lanes {
		config.Programs = []string{"laned"}
	}
	var err error
	if c.Programs, err = workload.Load(config); err != nil {
		return nil, fmt.Errorf("%w (that takes root, or CAP_BPF and CAP_PERFMON)", err)
	}
	return c, nil
}

func (c *collection) close() { c.Close() }

// outputs is what the programs of a collection have done, on all CPUs.
type outputs struct{ attempted, failed, ns uint64 }

func (o outputs) since(before outputs) outputs {
	return outputs{o.attempted - before.attempted, o.failed - before.failed, o.ns - before.ns}
}

// outputs reads the counters. They are exact while no program runs.
func (c *collection) outputs() (o outputs, err error) {
	all, err := c.Counts()
	for i := range all {
		sum := all[i].Sum()
		o.attempted += sum.Attempted
		o.failed += sum.Refused()
		o.ns += all[i].Ns
	}
	return o, err
}

// emit outputs count events of size bytes on a CPU. On another one than the caller's, the kernel
// runs the program in an interrupt there.
func (c *collection) emit(cpu, count, size int) error {
	return c.Output(cpu, workload.Output{Count: count, Size: size, To: c.to})
}

// flow is what a process of the load outputs. The CPU time of this one is the reader's.
type flow struct {
	CPUs []int
	Size int
	Rate int // events per second on all CPUs together; 0 is as many as can be
}

// start starts a process that runs a collection's program. stop ends it; from then on the programs'
// counters stand still.
func (f flow) start(c *collection) (stop func() error, err error) {
	all, err := workload.Start(c.ProgFD("run"), workload.Job{
		Kind: "flow", CPUs: f.CPUs, Rate: f.Rate, Output: workload.Output{Size: f.Size, To: c.to},
	})
	return all.Stop, err
}

// cpuTime is what this process has used, of all its threads.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// patience is how long nothing may happen before that is a hang. A busy machine starts processes slowly, and readers have to share it.
const patience = time.Minute

// awaitOutputs waits until outputs have succeeded since those before.
func (c *collection) awaitOutputs(before outputs) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		o, err := c.outputs()
		if err != nil {
			return err
		}
		if d := o.since(before); d.attempted > d.failed {
			return nil
		} else if time.Now().After(end) {
			return fmt.Errorf("no output succeeded, of %d in %v", d.attempted, patience)
		}
	}
}

// cpus are those that this process may run on, and on which events are output.
var cpus = func() (list []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return []int{0}
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			list = append(list, c)
		}
	}
	return list
}()

// pin keeps the caller's goroutine on a CPU, until it calls what is returned.
func pin(cpu int) (unpin func(), err error) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, fmt.Errorf("staying on CPU %d: %w", cpu, err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with its goroutine
	}, nil
}
