package ringtest

import "github.com/ringfold/ringfold/internal/raw"

// Buffer is the rings of one reader, as perf_buffer__new_raw sets them up.
type Buffer struct {
	// Start is where the rings' counters begin, a multiple of 8. A kernel's begin at 0.
	Start uint64

	kernel        *Kernel
	cpus          []int
	events, bytes int
	wakes         chan struct{}
	rings         []*event
}

// event is a perf event and the ring that belongs to it.
type event struct {
	*Ring
	unmapped bool
	wakes    chan<- struct{}
}

func (e *event) wake(really bool) {
	if really {
		select {
		case e.wakes <- struct{}{}:
		default: // poll is still to be told of the last one
		}
	}
}

// NewBuffer is a buffer of a ring for each of these CPUs that wakes its reader as Ring.SetWakeup
// says, or, if both are 0, when a ring is a quarter full. Map makes the rings.
func (k *Kernel) NewBuffer(cpus []int, wakeupEvents, wakeupBytes int) *Buffer {
	return &Buffer{kernel: k, cpus: cpus, events: wakeupEvents, bytes: wakeupBytes, wakes: make(chan struct{}, 1)}
}

// CPUs are those that rings are for, in their order.
func (b *Buffer) CPUs() []int { return b.cpus }

// Map makes the rings and stores them in the kernel's map, in the place of what is there. It
// returns their reading sides.
func (b *Buffer) Map(ringBytes int, noTime bool) (rings []*raw.Ring) {
	layout := raw.LayoutRawTime
	if noTime {
		layout = raw.LayoutRaw
	}
	for _, i := range b.cpus {
		e := &event{Ring: New(ringBytes, layout, b.Start), wakes: b.wakes}
		if b.events > 0 || b.bytes > 0 {
			e.SetWakeup(b.events, b.bytes)
		} else {
			e.SetWakeup(0, ringBytes/4)
		}
		b.rings = append(b.rings, e)
		rings = append(rings, e.Raw())
		c := b.kernel.cpu(i)
		c.mu.Lock()
		c.event, c.bell = e, false
		c.mu.Unlock()
	}
	return rings
}

// Wakes has a value when readers are to be woken.
func (b *Buffer) Wakes() <-chan struct{} { return b.wakes }

// Ring is the i-th ring, for whoever sees to it that its CPU does nothing meanwhile.
func (b *Buffer) Ring(i int) *Ring { return b.rings[i].Ring }

// Lost is how many outputs to the i-th ring have failed for want of room.
func (b *Buffer) Lost(i int) uint64 { return b.rings[i].Lost() }

// Unhook empties the map's entries of these CPUs, whoever's rings they have, as perf_buffer__free
// does. Outputs find no ring from then on; those that have found it write to it all the same.
func (b *Buffer) Unhook() {
	b.each(func(c *cpu, _ *event) { c.event = nil })
}

// Set stores the i-th ring in the map, in the place of what is there, or empties the entry. Of
// outputs that find the ring with bell set, each wakes readers.
func (b *Buffer) Set(i int, stored, bell bool) {
	c := b.kernel.cpu(b.cpus[i])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.event, c.bell = nil, bell
	if stored {
		c.event = b.rings[i]
	}
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
