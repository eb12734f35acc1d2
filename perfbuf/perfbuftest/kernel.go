package perfbuftest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
)

// Kernel is a simulated kernel: CPUs that run BPF programs, one clock, and one perf event array,
// into which [Kernel.Open] puts rings. It is safe for concurrent use, with the readers of its rings
// too: programs of different CPUs may run in goroutines of their own.
type Kernel struct {
	sim   *ringtest.Kernel
	start time.Time // of the clock that runs; zero if it does not
	clock atomic.Int64
}

// Options configures a simulated kernel. The zero value is good.
type Options struct {
	// CPUs is how many CPUs there are, with numbers from 0 on. 0 is 2.
	CPUs int

	// Start is the clock's first reading. 0 is one hour.
	Start time.Duration

	// RealTime lets the clock run, with time.Now, which in a bubble of testing/synctest is the
	// bubble's time. Otherwise only [Kernel.Advance] moves it, and times are the same in each run.
	RealTime bool
}

// New makes a kernel.
func New(o Options) *Kernel {
	k := &Kernel{}
	if o.CPUs < 0 || o.Start < 0 {
		panic(fmt.Sprintf("perfbuftest.New: %+v: nothing in it may be negative", o))
	}
	if o.CPUs == 0 {
		o.CPUs = 2
	}
	if o.Start == 0 {
		o.Start = time.Hour
	}
	k.clock.Store(int64(o.Start))
	if o.RealTime {
		k.start = time.Now()
	}
	k.sim = ringtest.NewKernel(o.CPUs, func(int) uint64 { return k.Now() })
	return k
}

// Now is the clock's reading in ns: the time of an event that is output now.
func (k *Kernel) Now() uint64 {
	now := k.clock.Load()
	if !k.start.IsZero() {
		now += int64(time.Since(k.start))
	}
	return uint64(now)
}

// Advance moves the clock on by d.
func (k *Kernel) Advance(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("perfbuftest.Kernel.Advance: by %v: the clock is monotonic", d))
	}
	k.clock.Add(int64(d))
}

// Output runs a BPF program on a CPU that outputs once, from beginning to end, as an interrupt
// if a program is running there. It returns the result of bpf_perf_event_output, see
// [Program.Reserve].
func (k *Kernel) Output(cpu int, payload []byte) error { return k.sim.Output(cpu, payload) }

// Counts says what became of a CPU's outputs since New. It comes from the writing side alone, so a
// test can hold against it what was read: at the end Written is the number of samples, and Lost
// that of the losses reported and of those that no later output could report. This requires that no
// output of a [Program] was under way when the Reader was closed.
//
// It does not know of damage: an output that is too large for a record counts as Written, see
// [Program.Reserve].
type Counts struct {
	Attempted uint64 // the sum of the others, and those under way
	Written   uint64
	Lost      uint64 // -ENOSPC
	Refused   uint64 // -ENOENT, -EBUSY: not reported to readers
}

// Counts returns the counts of a CPU.
func (k *Kernel) Counts(cpu int) Counts { return Counts(k.sim.Counts(cpu)) }
