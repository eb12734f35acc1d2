package perfbuftest

import (
	"os"
	"slices"
	"sync"

	"github.com/ringfold/ringfold/internal/inject"
	"github.com/ringfold/ringfold/perfbuf"
)

// Open is [perfbuf.Open] on this kernel's perf event array: it checks the options in the same way
// and returns a Reader that works as any other. Like there, a second Reader takes the place of the
// first in the array.
func (k *Kernel) Open(o perfbuf.Options) (*perfbuf.Reader, error) {
	var online []int
	for i := range k.sim.CPUs() {
		online = append(online, i)
	}
	cpus := online
	if len(o.CPUs) > 0 { // Map is called only if they are online
		cpus = slices.Sorted(slices.Values(o.CPUs))
	}
	b := k.sim.NewBuffer(cpus, o.Wakeup.Events, o.Wakeup.Bytes)
	closed := make(chan struct{})
	r, err := inject.NewReader(inject.Kernel{
		CPUs:  online,
		Map:   b.Map,
		Clock: k.Now,
		Wakes: b.Wakes(),
		Grace: func() error {
			// Close does not wait for Programs: the same goroutine may be to end them, or have failed to.
			if !k.sim.Grace().Wait(closed) {
				return os.ErrClosed
			}
			return nil
		},
		Lost: b.Lost,
		Slot: func(ring int, to inject.Slot) error {
			b.Set(ring, to != inject.SlotEmpty, to == inject.SlotBell)
			return nil
		},
		Unhook: sync.OnceFunc(func() {
			b.Unhook()
			close(closed)
		}),
		Free: b.Free,
	}, o)
	if err != nil {
		return nil, err
	}
	return r.(*perfbuf.Reader), nil
}
