package ringtest

import (
	"os"
	"sync"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
)

// Buffer holds the rings of one reader in a perf event array of this kernel. It opens them, and is
// the kernel.Kernel of the reader.
type Buffer struct {
	// Start is where the rings' counters begin, a multiple of 8. A kernel's begin at 0.
	Start uint64
	// Array is the index of the kernel's array.
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
	held     bool // the reader stored it in the map and has not emptied the entry
	reader   *Buffer
}

func (e *event) wake(really bool) {
	if really {
		e.reader.Wake()
	}
}

// NewBuffer makes a Buffer, with which a reader opens its rings.
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

// RingBuf is false.
func (b *Buffer) RingBuf() bool { return false }

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

// store stores a ring in the map, and notifies the reader whose ring it replaces, if any.
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

// lose notifies the reader that another one has taken an entry.
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

// Displaced counts the entries that other readers have taken.
func (b *Buffer) Displaced() kernel.Displaced {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.displaced
}

// Watch calls found as soon as another reader takes an entry.
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

// Replaced is how many entries Open took from other readers.
func (b *Buffer) Replaced() int { return b.replaced }

// Now reads the clock of the first CPU.
func (b *Buffer) Now() uint64 { return b.kernel.clock(0) }

// Grace waits for the kernel's programs, but not after Unhook: the goroutine that closes a reader
// may be the one that must end them.
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

// Ring is the i-th ring. The caller must keep its CPU from doing anything meanwhile.
func (b *Buffer) Ring(i int) *Ring { return b.rings[i].Ring }

// Lost is how many outputs to the i-th ring have failed for want of room.
func (b *Buffer) Lost(i int) (n uint64, ok bool) { return b.rings[i].Lost(), true }

// Unhook empties the map's entries with these rings. Later outputs find no ring; outputs that have
// already found it still write to it.
func (b *Buffer) Unhook() error {
	b.unhook()
	return nil
}

// Set stores the i-th ring in the map, or empties the entry. It leaves an entry alone that another
// reader has taken since.
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
