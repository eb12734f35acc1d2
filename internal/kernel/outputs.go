package kernel

import "github.com/ringfold/ringfold/internal/raw"

// Lanes are a map of lanes, and each lane's share of a ring: see perfbuf.Options.
type Lanes struct {
	MapFD   int
	Percent []int
}

// Outputs is what they have counted since the rings were opened: see perfbuf.OutputStats.
type Outputs struct {
	CPUs            []CPUOutputs
	RecursionMisses uint64
	Err             error
}

// CPUOutputs sorts a CPU's outputs in a lane by result: see perfbuf.CPUOutputs.
type CPUOutputs struct {
	CPU, Lane                                                                         int
	Attempted, Written, Shed, Full, NoRing, Nested, Offline, NoEntry, TooLarge, Other uint64
}

// Counts returns pointers to all counts.
func (c *CPUOutputs) Counts() [10]*uint64 {
	return [...]*uint64{&c.Attempted, &c.Written, &c.Shed, &c.Full, &c.NoRing, &c.Nested, &c.Offline, &c.NoEntry, &c.TooLarge, &c.Other}
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
func (o Outputs) Full(cpu int) (n uint64) {
	for _, c := range o.CPUs {
		if c.CPU == cpu {
			n += c.Full
		}
	}
	return n
}

// CPULosses are outputs of a CPU that were shed, or found no room, since the previous call, as
// programs counted them.
type CPULosses struct {
	CPU   int // -1: of several
	Lane  int
	Shed  bool
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

// LossCounter is implemented by a Kernel whose programs count the losses that no record reports.
type LossCounter interface {
	// Losses appends those of each CPU that had any since the previous call. After Free there are
	// none.
	Losses(into []CPULosses) []CPULosses
}

// Shedder is implemented by a Kernel whose programs output in lanes.
type Shedder interface {
	// Shed makes programs shed all outputs in lanes below this one. It returns false if there are
	// not so many lanes, or none.
	Shed(below int) bool
	// Lanes returns how many lanes there are, or 0.
	Lanes() int
}

// CountedLosses appends the losses that c has counted since the previous call.
func CountedLosses(c LossCounter, into []raw.Odd, now func() uint64) []raw.Odd {
	for _, l := range c.Losses(nil) {
		// A counting program is interrupted, and interrupts, so Last is no upper bound; now is.
		kind := raw.Lost
		if l.Shed {
			kind = raw.Shed
		}
		into = append(into, raw.Odd{Kind: kind, CPU: l.CPU, Lane: l.Lane, Lost: l.Count, After: l.First - min(l.First, 1), Time: now(), Counted: true})
	}
	return into
}
