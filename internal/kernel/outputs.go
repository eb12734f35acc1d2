package kernel

import "github.com/ringfold/ringfold/internal/raw"

// OutputCounts names who counts outputs besides the kernel: see perfbuf.Options.
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

// CPUOutputs sorts a CPU's outputs by result: see perfbuf.CPUOutputs.
type CPUOutputs struct {
	CPU                                                                         int
	Attempted, Written, Full, NoRing, Nested, Offline, NoEntry, TooLarge, Other uint64
}

// Counts returns pointers to all counts.
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

// Full returns how many outputs of a CPU are known to have failed for want of room.
func (o Outputs) Full(cpu int) uint64 {
	for _, c := range o.CPUs {
		if c.CPU == cpu {
			return c.Full
		}
	}
	return 0
}

// CPULosses are outputs of a CPU that failed since the previous call, as programs counted them.
type CPULosses struct {
	CPU   int // -1: of several
	Count uint64
	// First is when the first one failed, and Last when the last one did, unless a program was
	// interrupted or preempted before it counted its own. All have failed before the call.
	First, Last uint64
}

// AllFull is the sum of Full over all CPUs.
func (o Outputs) AllFull() (n uint64) {
	for _, c := range o.CPUs {
		n += c.Full
	}
	return n
}

// LossCounter is implemented by a Kernel whose programs count the losses.
type LossCounter interface {
	// Losses appends those of each CPU that had any since the previous call. After Free there are
	// none.
	Losses(into []CPULosses) []CPULosses
}

// CountedLosses appends the losses that c has counted since the previous call.
func CountedLosses(c LossCounter, into []raw.Odd, now func() uint64) []raw.Odd {
	for _, l := range c.Losses(nil) {
		// A counting program is interrupted, and interrupts, so Last is no upper bound; now is.
		into = append(into, raw.Odd{Kind: raw.Lost, CPU: l.CPU, Lost: l.Count, After: l.First - min(l.First, 1), Time: now(), Counted: true})
	}
	return into
}
