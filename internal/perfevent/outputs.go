package perfevent

import (
	"slices"
	"sync"

	"github.com/ringfold/ringfold/internal/kernel"
)

const bpfMapTypePerCPUArray = 6

// outputs reads the counts that kernel.OutputCounts names. A nil *outputs counts nothing.
type outputs struct {
	mu     sync.Mutex
	read   func() (kernel.Outputs, error) // the running totals; nil after close
	free   func()
	begin  kernel.Outputs
	latest kernel.Outputs // since begin
}

func newOutputs(read func() (kernel.Outputs, error), free func()) (*outputs, error) {
	begin, err := read()
	return &outputs{read: read, free: free, begin: begin}, err
}

// look returns the counts since newOutputs, up to now or up to the last look before close.
func (o *outputs) look() kernel.Outputs {
	if o == nil {
		return kernel.Outputs{}
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
		for j, n := range o.begin.CPUs[i].Counts() {
			*s.CPUs[i].Counts()[j] -= *n
		}
	}
	o.latest = s
}

// close keeps the counts of the latest look.
func (o *outputs) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.read = nil
	o.free()
}
