package kernel

import "github.com/ringfold/ringfold/internal/raw"

// OutputCounts names who counts outputs besides the kernel: see perfbuf.OutputCounts.
type OutputCounts struct {
	MapFD   int
	ProgFDs []int
}

// Outputs is what they have counted since the rings were opened: see perfbuf.OutputStats.
type Outputs struct {
	CPUs            []CPUOutputs
	RecursionMisses uint64
	Err             error
}

// CPUOutputs is what became of a CPU's outputs: see perfbuf.CPUOutputs.
type CPUOutputs struct {
	CPU                                                                         int
	Attempted, Written, Full, NoRing, Nested, Offline, NoEntry, TooLarge, Other uint64
}

// Counts are all of them.
func (c *CPUOutputs) Counts() [9]*uint64 {
	return [...]*uint64{&c.Attempted, &c.Written, &c.Full, &c.NoRing, &c.Nested, &c.Offline, &c.NoEntry, &c.TooLarge, &c.Other}
}

// OutputCounter is implemented by a Kernel that can count outputs.
type OutputCounter interface {
	// Outputs looks at the counts. After Free they are what they were before.
	Outputs() Outputs
}

// Outputs is that of OutputCounter, and nothing without one.
func (p *Parts) Outputs() (o Outputs) {
	if p.OutputCounter != nil {
		o = p.OutputCounter.Outputs()
	}
	return o
}

// Full is how many outputs of a CPU have failed for want of room, as far as known.
func (o Outputs) Full(cpu int) uint64 {
	for _, c := range o.CPUs {
		if c.CPU == cpu {
			return c.Full
		}
	}
	return 0
}

// CPULosses are outputs of a CPU that have failed since the previous call, as programs counted
// them.
type CPULosses struct {
	CPU   int // -1: of several
	Count uint64
	// First is when the first one failed, and Last when the last one did, unless a program was
	// interrupted or preempted before it counted its own. All have failed before the call.
	First, Last uint64
}

// AllFull is Full of all CPUs together.
func (o Outputs) AllFull() (n uint64) {
	for _, c := range o.CPUs {
		n += c.Full
	}
	return n
}

// LossCounter is implemented by a Kernel that leaves it to programs to count losses.
type LossCounter interface {
	// Losses appends those of each CPU that has had any since the previous call. After Free there are
	// none.
	Losses(into []CPULosses) []CPULosses
}

// CountedLosses appends those that c has counted, as what is no sample.
func CountedLosses(c LossCounter, into []raw.Odd, now func() uint64) []raw.Odd {
	for _, l := range c.Losses(nil) {
		// What counts is interrupted, and interrupts, so its last time is no upper bound; now is.
		into = append(into, raw.Odd{Kind: raw.Lost, CPU: l.CPU, Lost: l.Count, After: l.First - min(l.First, 1), Time: now(), Counted: true})
	}
	return into
}
