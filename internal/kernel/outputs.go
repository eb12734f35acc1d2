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
