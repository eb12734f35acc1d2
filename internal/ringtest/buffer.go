package ringtest

import (
	"os"
	"sync"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// Buffer is the rings of one reader in a perf event array of this kernel. It is what opens them, and the kernel.Kernel that the reader asks.
type Buffer struct {
	// Start is where the rings' counters begin, a multiple of 8. A kernel's begin at 0.
	Start uint64
	// Array is which of the kernel's, from 0 on.
	Array int
	*Poll

	kernel *Kernel
	cpus   []int
	rings  []*event
	memory []*raw.Ring
	over   chan struct{} // closed by Unhook
	unhook func()
}

// event is a perf event and the ring that belongs to it.
type event struct {
	*Ring
	unmapped bool
	held     bool // it was stored in the map, and the entry not emptied since
	poll     *Poll
}

func (e *event) wake(really bool) {
	if really {
		e.poll.Wake()
	}
}

// NewBuffer is what a reader opens its rings with.
func (k *Kernel) NewBuffer() *Buffer {
	b := &Buffer{kernel: k, Poll: NewPoll(), over: make(chan struct{})}
	b.unhook = sync.OnceFunc(func() {
		b.each(func(c *cpu, e *event) {
			if entry := &c.entries[b.Array]; entry.event == e {
				entry.event = nil
			}
		})
		close(b.over)
	})
	return b
}

// Online returns all CPUs.
func (b *Buffer) Online() (cpus []int, err error) {
	for i := range b.kernel.cpus {
		cpus = append(cpus, i)
	}
	return cpus, nil
}

// Open makes the rings and stores them in the kernel's map, in the place of what is there.
func (b *Buffer) Open(s kernel.Setup) (kernel.Kernel, error) {
	layout := raw.LayoutRawTime
	if s.NoTime {
		layout = raw.LayoutRaw
	}
	b.cpus = s.CPUs
	for _, i := range b.cpus {
		e := &event{Ring: New(s.RingBytes, layout, b.Start), held: true, poll: b.Poll}
		e.SetWakeup(s.WakeupEvents, s.WakeupBytes)
		b.rings = append(b.rings, e)
		r := e.Raw()
		r.SetCPU(i)
		b.memory = append(b.memory, r)
		c := b.kernel.cpu(i)
		c.mu.Lock()
		c.entries[b.Array].event, c.entries[b.Array].bell = e, false
		c.mu.Unlock()
	}
	return b, nil
}

// Close has nothing to close.
func (b *Buffer) Close() {}

// Rings are the reading sides.
func (b *Buffer) Rings() []*raw.Ring { return b.memory }

// CPUs are those that rings are for, in their order.
func (b *Buffer) CPUs() []int { return b.cpus }

// Bells is nil: each ring has one.
func (b *Buffer) Bells() error { return nil }

// Replaced is 0: who reads a map is not counted.
func (b *Buffer) Replaced() int { return 0 }

// Map is 0: who reads it is not known.
func (b *Buffer) Map() (id int, name string) { return 0, "" }

// Now is what the clock of the first CPU shows.
func (b *Buffer) Now() uint64 { return b.kernel.clock(0) }

// Grace waits for the kernel's programs, but not after Unhook: the goroutine that closes a reader may be the one that
// is to end them, or have failed to.
func (b *Buffer) Grace(grace.Options) (grace.Provider, error) {
	p := Provider(func() error {
		if !b.kernel.Grace().Wait(b.over) {
			return os.ErrClosed
		}
		return nil
	})
	return p, p.Wait()
}

// Provider is a grace.Provider that is a function.
type Provider func() error

// Name is "simulated".
func (Provider) Name() string { return "simulated" }

// Wait calls the function.
func (p Provider) Wait() error { return p() }

// Close does nothing.
func (Provider) Close() error { return nil }

// Ring is the i-th ring, for whoever sees to it that its CPU does nothing meanwhile.
func (b *Buffer) Ring(i int) *Ring { return b.rings[i].Ring }

// Lost is how many outputs to the i-th ring have failed for want of room.
func (b *Buffer) Lost(i int) (n uint64, ok bool) { return b.rings[i].Lost(), true }

// Unhook empties the map's entries that have these rings. Outputs find no ring from then on; those that
// have found it write to it all the same.
func (b *Buffer) Unhook() error {
	b.unhook()
	return nil
}

// Set stores the i-th ring in the map, or empties the entry. If another reader has taken that since, it stays that one's.
func (b *Buffer) Set(i int, to kernel.Entry) error {
	c, e := b.kernel.cpu(b.cpus[i]), b.rings[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := &c.entries[b.Array]
	taken := e.held && entry.event != nil && entry.event != e
	switch {
	case to == kernel.Empty:
		if e.held && !taken {
			entry.event = nil
		}
		e.held = false
	case !taken:
		entry.event, entry.bell, e.held = e, to == kernel.Bell, true
	}
	return nil
}

// Free unmaps the rings, after Unhook.
func (b *Buffer) Free() {
	b.each(func(_ *cpu, e *event) { e.unmapped = true })
}

// Poison is Ring.Poison of all rings.
func (b *Buffer) Poison() {
	b.each(func(_ *cpu, e *event) { e.Poison() })
}

func (b *Buffer) each(f func(*cpu, *event)) {
	for i, e := range b.rings {
		c := b.kernel.cpu(b.cpus[i])
		c.mu.Lock()
		f(c, e)
		c.mu.Unlock()
	}
}
