package kernel

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
	CPU                                                               int
	Attempted, Written, Full, NoRing, Nested, Offline, NoEntry, Other uint64
}

// OutputCounter is implemented by a Kernel that can count outputs.
type OutputCounter interface {
	// Outputs looks at the counts. After Free they are what they were before.
	Outputs() Outputs
}

// CountedOutputs are those that k has counted, none if it cannot.
func CountedOutputs(k Kernel) (o Outputs) {
	if c, ok := k.(OutputCounter); ok {
		o = c.Outputs()
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
