package ringbuf

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// Buffers are the ring buffers of a reader.
type Buffers struct {
	*host.Poller
	target int // a duplicate of the user's map descriptor
	opts   Opener
	epoll  int // contains all ring buffers
	clock  host.Clock
	lanes  *host.Lanes // nil: programs count nothing
	memory []*raw.Ring

	mu      sync.Mutex
	buffers []*buffer // in the order of the reader's rings
}

// open maps those ring buffers of found that still exist. release frees them, also after an error.
func (b *Buffers) open(found []shard, setup kernel.Setup) (err error) {
	if b.clock, err = host.NewClock(setup.BootTime); err != nil {
		return err
	}
	if b.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	if b.Poller, err = host.NewPoller(b.epoll, false); err != nil {
		return err
	}
	for _, s := range found {
		memory, err := b.add(s)
		if errors.Is(err, unix.ENODEV) {
			continue // replaced since
		}
		if err != nil {
			return err
		}
		b.memory = append(b.memory, memory)
	}
	if len(b.memory) == 0 {
		return b.opts.info.Fail("it contains no maps yet: store at least one ring buffer first; the reader finds later ones itself")
	}
	if b.lanes, err = host.OpenLanes(setup.Lanes, 0, true, b.clock.Now()); err != nil {
		return err
	}
	b.sizeLanes()
	b.lanes.Read(-1, true)
	return nil
}

// sizeLanes gives lanes their shares of the ring buffer under their CPU's number, or of the
// smallest one if there is none: which CPUs output to the others is not known.
func (b *Buffers) sizeLanes() {
	b.mu.Lock()
	defer b.mu.Unlock()
	smallest := uint64(math.MaxInt64)
	for _, buf := range b.buffers {
		if !buf.vacated {
			smallest = min(smallest, buf.memory.Size())
		}
	}
	b.lanes.Resize(-1, int(smallest))
	for _, buf := range b.buffers { // the latest of a CPU last
		if cpu := buf.memory.CPU(); cpu >= 0 {
			b.lanes.Resize(cpu, int(buf.memory.Size()))
		}
	}
}

// add maps a ring buffer and appends it. The error wraps ENODEV if the map is gone.
func (b *Buffers) add(s shard) (*raw.Ring, error) {
	fd, m, err := b.opts.mapOf(s)
	if err != nil {
		return nil, err
	}
	buf, err := mapBuffer(fd, m, b.opts.positions)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	buf.memory.SetCPU(s.cpu)
	if err := unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		buf.unmap()
		unix.Close(fd)
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buffers = append(b.buffers, buf)
	return buf.memory, nil
}

// Rings returns the ring buffers that open mapped.
func (b *Buffers) Rings() []*raw.Ring { return b.memory }

// Map returns the id and name of the user's map.
func (b *Buffers) Map() (id int, name string) { return b.opts.info.ID, b.opts.info.Name }

// Lost returns the number of failed outputs on all CPUs. ok is false if programs do not count them,
// or if there are shards: the counters do not distinguish between those.
func (b *Buffers) Lost(ring int) (n uint64, ok bool) {
	if b.lanes == nil || b.opts.sharded() {
		return 0, false
	}
	for _, c := range b.lanes.Outputs() {
		n += c.Full
	}
	return n, true
}

// Outputs is what programs have counted since open.
func (b *Buffers) Outputs() kernel.Outputs { return kernel.Outputs{CPUs: b.lanes.Outputs()} }

// Losses appends what found no room or was shed since the previous call, or since open.
func (b *Buffers) Losses(into []kernel.CPULosses) []kernel.CPULosses { return b.lanes.Losses(into) }

// Shed implements kernel.Shedder.
func (b *Buffers) Shed(below int) bool { return b.lanes.Shed(below) }

// Lanes implements kernel.Shedder.
func (b *Buffers) Lanes() int { return b.lanes.Count() }

// Now returns the kernel's CLOCK_MONOTONIC.
func (b *Buffers) Now() uint64 { return b.clock.Now() }

// Grace calls grace.Open.
func (b *Buffers) Grace(o grace.Options) (grace.Provider, error) { return grace.Open(o) }

// PollFD returns the epoll descriptor, which wakeups make readable.
func (b *Buffers) PollFD() int { return b.epoll }

// Group calls host.Group.
func (b *Buffers) Group() (kernel.Group, error) { return host.Group(b) }

// Unhook does nothing: the reader stores nothing in the map, and programs continue to output to it.
func (b *Buffers) Unhook() error { return nil }

// Free unmaps the ring buffers and closes the map.
func (b *Buffers) Free() {
	b.release()
	unix.Close(b.target)
}

// release frees everything except the user's map.
func (b *Buffers) release() {
	if b.Poller != nil {
		b.Poller.Close()
	}
	if b.epoll >= 0 {
		unix.Close(b.epoll)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, buf := range b.buffers {
		buf.unmap()
		if !buf.vacated {
			unix.Close(buf.fd)
		}
	}
	b.lanes.Close()
}
