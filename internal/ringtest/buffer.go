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

	kernel   *Kernel
	cpus     []int
	rings    []*event
	memory   []*raw.Ring
	over     chan struct{} // closed by Unhook
	unhook   func()
	replaced int

	mu        sync.Mutex
	displaced kernel.Displaced
	found     func(cpus []int, since uint64)
}

// event is a perf event and the ring that belongs to it.
type event struct {
	*Ring
	unmapped bool
	held     bool // it was stored in the map, and the entry not emptied since
	reader   *Buffer
}

func (e *event) wake(really bool) {
	if really {
		e.reader.Wake()
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

// Open makes the rings and stores them in the kernel's map. They replace those of other readers.
func (b *Buffer) Open(s kernel.Setup) (kernel.Kernel, error) {
	layout := raw.LayoutRawTime
	if s.NoTime {
		layout = raw.LayoutRaw
	}
	b.cpus = s.CPUs
	for _, i := range b.cpus {
		e := &event{Ring: New(s.RingBytes, layout, b.Start), reader: b}
		e.SetWakeup(s.WakeupEvents, s.WakeupBytes)
		b.rings = append(b.rings, e)
		r := e.Raw()
		r.SetCPU(i)
		b.memory = append(b.memory, r)
		if b.store(b.kernel.cpu(i), e, false) {
			b.replaced++
		}
	}
	return b, nil
}

// store stores a ring in the map, and tells the reader whose it replaces, if there is one.
func (b *Buffer) store(c *cpu, e *event, bell bool) (replaced bool) {
	c.mu.Lock()
	entry := &c.entries[b.Array]
	old := entry.event
	entry.event, entry.bell, e.held = e, bell, true
	c.mu.Unlock()
	if old == nil || old == e {
		return false
	}
	old.reader.lose(c.id)
	return true
}

// lose tells the reader that another one has taken an entry.
func (b *Buffer) lose(cpu int) {
	now := b.Now()
	b.mu.Lock()
	if b.displaced.Entries++; b.displaced.Entries == 1 {
		b.displaced.OwnedUntil = now
	}
	found := b.found
	b.mu.Unlock()
	if found != nil {
		found([]int{cpu}, now)
	}
}

// Displaced is what other readers have done to the entries.
func (b *Buffer) Displaced() kernel.Displaced {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.displaced
}

// Watch has found called at once when another reader takes an entry.
func (b *Buffer) Watch(found func(cpus []int, since uint64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found = found
}

// Close has nothing to close.
func (b *Buffer) Close() {}

// Rings are the reading sides.
func (b *Buffer) Rings() []*raw.Ring { return b.memory }

// Bells is nil: each ring has one.
func (b *Buffer) Bells() error { return nil }

// Replaced is how many entries were another reader's.
func (b *Buffer) Replaced() int { return b.replaced }

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
	entry := &c.entries[b.Array]
	taken := e.held && entry.event != nil && entry.event != e
	if to == kernel.Empty {
		if e.held && !taken {
			entry.event = nil
		}
		e.held = false
	}
	c.mu.Unlock()
	if to != kernel.Empty && !taken {
		b.store(c, e, to == kernel.Bell)
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
