package ringtest

import (
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// Still is a kernel.Kernel that does nothing by itself, on which no program runs: its rings are
// written by a test. It is older than Linux 6.0, so that it does not count losses, and has no
// doorbells.
type Still struct {
	*Poll
	Clock  func() uint64
	Memory []*raw.Ring
}

// NewStill makes one of these rings, of CPUs from first on.
func NewStill(clock func() uint64, first int, rings ...*Ring) *Still {
	k := &Still{Poll: NewPoll(), Clock: clock}
	for i, w := range rings {
		r := w.Raw()
		r.SetCPU(first + i)
		k.Memory = append(k.Memory, r)
	}
	return k
}

// RingBuf reports whether they are BPF ring buffers.
func (k *Still) RingBuf() bool { return k.Memory[0].Layout() == raw.LayoutRingBuf }

// Online returns the CPUs of the rings.
func (k *Still) Online() (cpus []int, err error) {
	for _, r := range k.Memory {
		cpus = append(cpus, r.CPU())
	}
	return cpus, nil
}

// Open has done its work.
func (k *Still) Open(kernel.Setup) (kernel.Kernel, error) { return k, nil }

// Close has nothing to close.
func (k *Still) Close() {}

// Rings returns the rings.
func (k *Still) Rings() []*raw.Ring { return k.Memory }

// Now reads the clock.
func (k *Still) Now() uint64 { return k.Clock() }

// Grace has nothing to wait for.
func (k *Still) Grace(grace.Options) (grace.Provider, error) {
	return Provider(func() error { return nil }), nil
}

// Unhook does nothing.
func (k *Still) Unhook() error { return nil }

// Free does nothing.
func (k *Still) Free() {}
