package perfbuf

import "github.com/ringfold/ringfold/internal/kernel"

// OutputStats is what LanesFD and ProgFDs of [Options] have counted from Open on, until Close has
// waited for running programs.
type OutputStats struct {
	CPUs []CPUOutputs // of all possible CPUs, by number, and of their lanes; nil without a map
	// RecursionMisses is how many runs of the programs the kernel skipped, because the CPU was
	// already running the same program. That happens to programs on functions or tracepoints that
	// they reach themselves, or that interrupts reach. Linux counts these runs from 5.12 on, at
	// first not for all types of program.
	RecursionMisses uint64
	// Err is why RecursionMisses could not be read, for example because the process dropped
	// privileges. It is then that of the last successful read.
	Err error
}

// CPUOutputs counts a CPU's outputs in a lane by result. Attempted is the sum of all others. All
// but Written are outputs that got nowhere. Of these, the kernel itself counts only Full.
type CPUOutputs struct {
	CPU       int // -1: of CPUs that the map has no entry of their own for
	Lane      int
	Attempted uint64
	Written   uint64 // to the ring
	Shed      uint64 // ECANCELED: the lane's share of the ring was full, or see Reader.Shed
	Full      uint64 // ENOSPC: the ring was full
	NoRing    uint64 // ENOENT: there is no ring for this CPU, or the reader is paused
	Nested    uint64 // EBUSY: it interrupted three nested outputs on that CPU
	// Offline counts EOPNOTSUPP: the CPU was offline and its ring is not reopened yet, or the entry
	// is another CPU's. See also Stats.CloseErr.
	Offline  uint64
	NoEntry  uint64 // E2BIG: the map has fewer entries than there are CPUs
	TooLarge uint64 // EMSGSIZE: more than 65508 bytes, which perfbuf_output refuses
	Other    uint64
}

// Total sums the CPUs and lanes up. Its CPU and Lane are -1.
func (s OutputStats) Total() CPUOutputs {
	t := CPUOutputs{CPU: -1, Lane: -1}
	for _, c := range s.CPUs {
		for i, n := range (*kernel.CPUOutputs)(&c).Counts() {
			*(*kernel.CPUOutputs)(&t).Counts()[i] += *n
		}
	}
	return t
}

// outputStats returns the public form of o.
func outputStats(o kernel.Outputs) OutputStats {
	s := OutputStats{RecursionMisses: o.RecursionMisses, Err: o.Err}
	for _, cpu := range o.CPUs {
		s.CPUs = append(s.CPUs, CPUOutputs(cpu))
	}
	return s
}
