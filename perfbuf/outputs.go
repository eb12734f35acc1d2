package perfbuf

import (
	"slices"
	"sync"
)

// OutputCounts names who counts outputs besides the kernel, which counts only what full rings refused.
// The zero value is nobody. Open duplicates the descriptors. Each call of Stats then makes a system
// call per entry of the map, of which there are 128 by default, and per program. A simulated kernel has
// none of this and ignores it.
type OutputCounts struct {
	// MapFD is the map perfbuf_outputs of programs that output with bpf/perfbuf_output.h. It should
	// count the outputs to this reader's map and no other. 0 is none.
	MapFD int
	// ProgFDs are the programs whose skipped runs are to be counted.
	ProgFDs []int
}

// OutputStats is what [Options].Outputs has counted from Open on, until Close has waited for running
// programs.
type OutputStats struct {
	CPUs []CPUOutputs // of all possible CPUs, by number; nil without a map
	// RecursionMisses is how many runs of the programs were skipped, as the CPU was running the same
	// program already: programs on functions or tracepoints that they reach themselves, or that
	// interrupts reach. Linux counts them from 5.12 on, not for all types of program at first.
	RecursionMisses uint64
	// Err is why the latest look failed: privileges that were dropped, perhaps. The counts are older then.
	Err error
}

// CPUOutputs is what became of a CPU's outputs. Attempted is the sum of all others. All but Written
// are outputs that failed; all but those and Full are known to nobody else.
type CPUOutputs struct {
	CPU       int
	Attempted uint64
	Written   uint64 // to the ring
	Full      uint64 // ENOSPC: the ring was full
	NoRing    uint64 // ENOENT: nobody reads this CPU, or not now: see Reader.Pause
	Nested    uint64 // EBUSY: within three outputs of that CPU already, which it interrupted
	Offline   uint64 // EOPNOTSUPP: the CPU was offline, and its ring is not opened anew yet, or is another CPU's; or see Stats.CloseErr
	NoEntry   uint64 // E2BIG: the map has fewer entries than there are CPUs
	Other     uint64
}

// Total sums the CPUs up. Its CPU is -1.
func (s OutputStats) Total() CPUOutputs {
	t := CPUOutputs{CPU: noCPU}
	for _, c := range s.CPUs {
		for i, n := range c.counts() {
			*t.counts()[i] += *n
		}
	}
	return t
}

func (c *CPUOutputs) counts() [8]*uint64 {
	return [...]*uint64{&c.Attempted, &c.Written, &c.Full, &c.NoRing, &c.Nested, &c.Offline, &c.NoEntry, &c.Other}
}

const bpfMapTypePerCPUArray = 6

// outputs is what Options.Outputs names. nil is nothing.
type outputs struct {
	mu     sync.Mutex
	read   func() (OutputStats, error) // what has been counted ever; nil: no more
	free   func()
	begin  OutputStats
	latest OutputStats // since then
}

func newOutputs(read func() (OutputStats, error), free func()) (*outputs, error) {
	begin, err := read()
	return &outputs{read: read, free: free, begin: begin}, err
}

func (o *outputs) stats() OutputStats {
	if o == nil {
		return OutputStats{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.update()
	s := o.latest
	s.CPUs = slices.Clone(s.CPUs)
	return s
}

func (o *outputs) update() {
	if o.read == nil {
		return
	}
	s, err := o.read()
	if err != nil {
		o.latest.Err = err
		return
	}
	s.RecursionMisses -= o.begin.RecursionMisses
	for i := range s.CPUs {
		for j, n := range o.begin.CPUs[i].counts() {
			*s.CPUs[i].counts()[j] -= *n
		}
	}
	o.latest = s
}

// settle takes the final counts.
func (o *outputs) settle() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.update()
	o.close()
}

func (o *outputs) close() {
	if o != nil && o.read != nil {
		o.read = nil
		o.free()
	}
}

// full is how many outputs of a CPU have failed for want of room, as far as known. It is for after settle.
func (o *outputs) full(cpu int) uint64 {
	if o != nil {
		for _, c := range o.latest.CPUs {
			if c.CPU == cpu {
				return c.Full
			}
		}
	}
	return 0
}
