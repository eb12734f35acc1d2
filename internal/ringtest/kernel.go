package ringtest

import (
	"fmt"
	"sync"
)

// Kernel is CPUs that run BPF programs, a clock, perf event arrays, and RCU, which knows which
// programs are running. Goroutines may use it at the same time, also for one CPU: there one thing
// happens after the other, each whole.
type Kernel struct {
	// Settled, if not nil, gets the outcome of each output as soon as it is certain. err is nil
	// when the record is in the ring, visible or not, and the program's error otherwise. It runs on
	// the output's CPU, which can do nothing else meanwhile.
	Settled func(cpu int, time uint64, payload []byte, err error)

	clock func(cpu int) uint64
	cpus  []*cpu
}

// Arrays is how many perf event arrays there are. By default, programs and readers use the first.
const Arrays = 4

// NewKernel makes a kernel with CPUs 0 to cpus-1. clock is what a CPU's clock shows in ns.
func NewKernel(cpus int, clock func(cpu int) uint64) *Kernel {
	k := &Kernel{clock: clock}
	for i := range cpus {
		k.cpus = append(k.cpus, &cpu{kernel: k, id: i})
	}
	return k
}

type cpu struct {
	kernel *Kernel
	id     int

	mu        sync.Mutex
	entries   [Arrays]entry
	running   []*Program
	preempted []*Program
	outputs   int // between Prepare and Publish
}

// entry is a CPU's in a perf event array, and what became of the outputs there.
type entry struct {
	event  *event // nil if none
	bell   bool   // it is the ring's second perf event, of which each output wakes readers
	counts Counts
}

// Counts says what became of a CPU's outputs. Those that are neither are under way.
type Counts struct {
	Attempted uint64
	Written   uint64 // to a ring, whether or not what was written makes sense (see Handle.Take)
	Lost      uint64 // for want of room: -ENOSPC
	Refused   uint64 // for other reasons, which rings do not count
}

// CPUs is how many there are.
func (k *Kernel) CPUs() int { return len(k.cpus) }

// Counts of a CPU, over all arrays.
func (k *Kernel) Counts(cpu int) (sum Counts) {
	for i := range Arrays {
		c := k.CountsOf(i, cpu)
		sum.Attempted += c.Attempted
		sum.Written += c.Written
		sum.Lost += c.Lost
		sum.Refused += c.Refused
	}
	return sum
}

// CountsOf is Counts of one array.
func (k *Kernel) CountsOf(array, cpu int) Counts {
	c := k.cpu(cpu)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[array].counts
}

func (k *Kernel) cpu(i int) *cpu {
	if i < 0 || i >= len(k.cpus) {
		panic(fmt.Sprintf("simulated kernel: there is no CPU %d: it has CPUs 0 to %d", i, len(k.cpus)-1))
	}
	return k.cpus[i]
}

// Running returns the programs on a CPU: the last one runs, each of the others is interrupted by
// the one after it.
func (k *Kernel) Running(cpu int) []*Program {
	c := k.cpu(cpu)
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Program(nil), c.running...)
}

// Preempted returns the programs that have begun on a CPU and wait for it.
func (k *Kernel) Preempted(cpu int) []*Program {
	c := k.cpu(cpu)
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Program(nil), c.preempted...)
}

// Period is an RCU grace period.
type Period []<-chan struct{} // of programs: closed at their End

// Grace begins a grace period: it is over when every program that is running now has ended.
func (k *Kernel) Grace() (g Period) {
	for _, c := range k.cpus {
		c.mu.Lock()
		for _, list := range [][]*Program{c.running, c.preempted} {
			for _, p := range list {
				if p.ended == nil {
					p.ended = make(chan struct{})
				}
				g = append(g, p.ended)
			}
		}
		c.mu.Unlock()
	}
	return g
}

// Over reports whether the grace period has ended.
func (g Period) Over() bool {
	for _, ended := range g {
		select {
		case <-ended:
		default:
			return false
		}
	}
	return true
}

// Wait blocks until the grace period has ended, and returns true, or until stop is closed.
func (g Period) Wait(stop <-chan struct{}) bool {
	for _, ended := range g {
		select {
		case <-ended:
		case <-stop:
			return false
		}
	}
	return true
}
