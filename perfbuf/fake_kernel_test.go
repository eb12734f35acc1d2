package perfbuf

import (
	"os"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
)

// fakeKernel is a kernel.Kernel made of functions, which a test replaces. Those that are nil do
// nothing.
type fakeKernel struct {
	kernel.Hotplug // nil: only CPUs may be called
	poll           fakePolling
	memory         []*raw.Ring
	cpus           []int // that may have rings some day
	bells          error

	clock   func() uint64
	lost    func(ring int) (uint64, bool)
	set     func(ring int, to kernel.Entry) error
	grace   func(grace.Options) (grace.Provider, error)
	group   func() (kernel.Group, error)
	outputs func() kernel.Outputs
	unhook  func() error
	free    func()
	yield   func()
	drive   func(*grace.Barrier)
}

func (k *fakeKernel) Group() (kernel.Group, error) {
	if k.group != nil {
		return k.group()
	}
	return k.poll.Group()
}

func (k *fakeKernel) Polled() *ringtest.Poll { return k.poll.Polled() }

// fakePolling is the poller of a fake.
type fakePolling interface {
	Wait(until time.Time, ready func(woken bool) bool) error
	Interrupt()
	Group() (kernel.Group, error)
	Polled() *ringtest.Poll
}

func (k *fakeKernel) Wait(until time.Time, ready func(woken bool) bool) error {
	return k.poll.Wait(until, ready)
}

func (k *fakeKernel) Interrupt() {
	if k.poll != nil {
		k.poll.Interrupt()
	}
}

func (k *fakeKernel) Rings() []*raw.Ring { return k.memory }
func (k *fakeKernel) CPUs() []int        { return k.cpus }
func (k *fakeKernel) Bells() error       { return k.bells }
func (k *fakeKernel) Replaced() int      { return 0 }
func (k *fakeKernel) Now() uint64        { return k.clock() }

func (k *fakeKernel) Set(ring int, to kernel.Entry) error {
	if k.set == nil {
		return nil
	}
	return k.set(ring, to)
}

func (k *fakeKernel) Lost(ring int) (uint64, bool) {
	if k.lost == nil {
		return 0, false
	}
	return k.lost(ring)
}

func (k *fakeKernel) Grace(o grace.Options) (grace.Provider, error) {
	if k.grace == nil {
		return nil, os.ErrInvalid
	}
	return k.grace(o)
}

func (k *fakeKernel) Outputs() kernel.Outputs {
	if k.outputs == nil {
		return kernel.Outputs{}
	}
	return k.outputs()
}

func (k *fakeKernel) Unhook() error {
	if k.unhook == nil {
		return nil
	}
	return k.unhook()
}

func (k *fakeKernel) Free() {
	if k.free != nil {
		k.free()
	}
}

func (k *fakeKernel) Yield() bool {
	if k.yield != nil {
		k.yield()
	}
	return false
}

func (k *fakeKernel) Drive(b *grace.Barrier) {
	if k.drive == nil {
		b.Start()
		return
	}
	k.drive(b)
}
