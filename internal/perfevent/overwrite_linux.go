package perfevent

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// Overwritable owns one ring per CPU that the kernel overwrites, in the user's map. libbpf maps
// rings read-write, and the kernel never overwrites those (perf_mmap in kernel/events/core.c). So
// this package opens and maps these itself.
type Overwritable struct {
	setup    OverwriteSetup
	entries  *userMap // nil: not open yet
	attr     unix.PerfEventAttr
	clock    host.Clock
	watch    *cpuWatch
	provider grace.Provider
	replaced int
	follower sync.WaitGroup

	mu    sync.Mutex
	rings []overwritten
	hot   error
	added uint64

	written, refused uint64 // of rings that are closed
}

// OverwriteSetup configures the rings.
type OverwriteSetup struct {
	CPUs      []int // ascending
	Follow    []int // CPUs that get a ring when they come online; nil: all
	RingBytes int   // data bytes of each ring: pages, a power of two of them
	Grace     grace.Options
}

// overwritten is one ring. Its owner, the event that maps it, lives as long as the ring. Outputs
// arrive through event, which a new one replaces after the CPU was offline: see Alive.
type overwritten struct {
	cpu          int
	owner, event int
	memory       []byte
	ring         *raw.Ring
	began        uint64
}

// OpenOverwritable opens rings and stores them in the map that fd refers to. setup picks the rings,
// given the online CPUs.
func OpenOverwritable(fd int, setup func(online []int) (OverwriteSetup, error)) (*Overwritable, error) {
	for try := 1; ; try++ {
		p, err := openOverwritable(fd, setup)
		if err == nil {
			p.follower.Go(p.follow)
			return p, nil
		}
		if !errors.Is(err, syscall.ENODEV) || try == 5 { // a CPU has gone since
			return nil, err
		}
	}
}

func openOverwritable(fd int, setup func(online []int) (OverwriteSetup, error)) (_ *Overwritable, err error) {
	if err := host.Refuse32Bit(); err != nil {
		return nil, fmt.Errorf("flight.Open: %w", err)
	}
	p := &Overwritable{}
	defer func() {
		var wrong *host.MapError
		if err != nil {
			if p.watch != nil {
				p.watch.close()
			}
			p.release()
			if !errors.As(err, &wrong) {
				err = explain(err, p.setup.RingBytes)
			}
		}
	}()
	dup, info, err := host.DupMap(fd)
	if err != nil {
		return nil, fmt.Errorf("flight.Open: %w", err)
	}
	if err = checkType(info); err == nil {
		p.clock, err = host.NewClock()
		if err == nil {
			p.entries, err = openUserMap(dup, info, p.clock)
		}
		if err != nil {
			err = fmt.Errorf("flight.Open: %w", err)
		}
	}
	if err != nil {
		unix.Close(dup)
		return nil, err
	}
	p.watch = watchCPUs() // before reading the list
	online, err := cpulist.Online(cpulist.Dir)
	if err != nil {
		return nil, fmt.Errorf("flight.Open: %w", err)
	}
	if p.setup, err = setup(online); err != nil {
		return nil, err
	}
	p.attr = *overwriteAttr()
	for _, cpu := range p.setup.CPUs {
		if err := p.open(cpu); err != nil {
			return nil, fmt.Errorf("flight.Open: %w", err)
		}
	}
	for i := range p.rings {
		had, err := p.entries.take(p.rings[i].cpu, p.rings[i].event)
		if err != nil {
			return nil, fmt.Errorf("flight.Open: %w", err)
		}
		if had {
			p.replaced++
		}
	}
	// Open waits for outputs that have found the map's previous entries.
	if p.provider, err = grace.Open(p.setup.Grace); err != nil {
		return nil, fmt.Errorf("flight.Open: %w", err)
	}
	for i := range p.rings {
		p.rings[i].began = p.Now()
	}
	p.entries.watch(nil)
	return p, nil
}

// overwriteAttr disables wakeups, since nothing polls. The kernel notes a crossed watermark once
// per lap instead of twice (rb->watermark in ring_buffer_init, kernel/events/ring_buffer.c).
func overwriteAttr() *unix.PerfEventAttr {
	a := attr(kernel.Setup{WakeupBytes: math.MaxInt32})
	a.Bits |= unix.PerfBitWriteBackward
	return a
}

// callError names the system call that failed.
type callError struct {
	call string
	cpu  int
	err  error
}

func (e *callError) Error() string { return fmt.Sprintf("%s for CPU %d: %v", e.call, e.cpu, e.err) }
func (e *callError) Unwrap() error { return e.err }

// event opens a perf event of a CPU.
func (p *Overwritable) event(cpu int) (int, error) {
	fd, err := unix.PerfEventOpen(&p.attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, syscall.EINVAL) && p.attr.Read_format&unix.PERF_FORMAT_LOST != 0 {
		p.attr.Read_format &^= unix.PERF_FORMAT_LOST // before Linux 6.0
		return p.event(cpu)
	}
	if err != nil {
		return -1, &callError{"perf_event_open", cpu, err}
	}
	return fd, nil
}

// open opens the ring of a CPU, without storing it in the map.
func (p *Overwritable) open(cpu int) error {
	if cpu >= p.entries.MaxEntries {
		return tooSmall(p.entries.Map, cpu)
	}
	fd, err := p.event(cpu)
	if err != nil {
		return err
	}
	page := os.Getpagesize()
	memory, err := unix.Mmap(fd, 0, page+p.setup.RingBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return &callError{"mmap", cpu, err}
	}
	// Invariant: the metadata page comes first, and release unmaps the memory after the ring's last
	// use.
	ring, err := raw.New(unsafe.Pointer(unsafe.SliceData(memory)), memory[page:], raw.LayoutRawTime)
	if err != nil {
		unix.Munmap(memory)
		unix.Close(fd)
		return err
	}
	ring.SetCPU(cpu)
	p.rings = append(p.rings, overwritten{cpu: cpu, owner: fd, event: fd, memory: memory, ring: ring})
	return nil
}

// OverwrittenRing is a ring and the time from which it is complete.
type OverwrittenRing struct {
	*raw.Ring
	Began uint64
}

// Rings returns the current rings, which stay mapped until Close.
func (p *Overwritable) Rings() (rings []OverwrittenRing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rings {
		rings = append(rings, OverwrittenRing{p.rings[i].ring, p.rings[i].began})
	}
	return rings
}

// Pause makes the kernel refuse all outputs to these rings with ENOSPC, or accept them again
// (rb_toggle_paused in kernel/events/ring_buffer.c). Outputs under way continue. The kernel counts
// refused outputs, and reports them with the next accepted one.
func (p *Overwritable) Pause(on bool) (failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arg := 0
	if on {
		arg = 1
	}
	for i := range p.rings {
		if err := unix.IoctlSetInt(p.rings[i].owner, unix.PERF_EVENT_IOC_PAUSE_OUTPUT, arg); err != nil {
			failed = cmp.Or(failed, error(&callError{"PERF_EVENT_IOC_PAUSE_OUTPUT", p.rings[i].cpu, err}))
		}
	}
	return failed
}

// Wait calls the grace.Provider's Wait.
func (p *Overwritable) Wait() error { return p.provider.Wait() }

// Now returns CLOCK_MONOTONIC as the kernel reads it.
func (p *Overwritable) Now() uint64 { return p.clock.Now() }

// Barrier names the grace period provider.
func (p *Overwritable) Barrier() string { return p.provider.Name() }

// Replaced returns how many of the map's entries held another reader's events.
func (p *Overwritable) Replaced() int { return p.replaced }

// Displaced checks the map's entries and returns how other readers have changed them. After Close
// it returns the result of the last check.
func (p *Overwritable) Displaced() kernel.Displaced {
	p.entries.lookAround()
	return p.entries.displaced()
}

// Hotplug returns how many CPUs came online and got a ring or a new event, and why the latest did
// not.
func (p *Overwritable) Hotplug() (n uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.added, cmp.Or(p.hot, p.watch.err())
}

// Counts returns how many bytes were ever output, and how many outputs the kernel refused while
// paused (0 before Linux 6.0). It interrupts CPUs. After Close it returns the final counts.
func (p *Overwritable) Counts() (written, refused uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written, refused = p.written, p.refused
	for i := range p.rings {
		w, r := p.rings[i].counts(p.attr.Read_format)
		written, refused = written+w, refused+r
	}
	return written, refused
}

func (r *overwritten) counts(format uint64) (written, refused uint64) {
	if format&unix.PERF_FORMAT_LOST != 0 {
		if _, n, err := readEvent(r.owner); err == nil {
			refused = n
		}
		if r.event != r.owner {
			if _, n, err := readEvent(r.event); err == nil {
				refused += n
			}
		}
	}
	return -r.ring.Head(), refused // the head counts down from 0
}

// Close empties the map's entries that this reader still holds, unmaps the rings, and releases the
// map. Nobody may use the rings from then on.
func (p *Overwritable) Close() error {
	p.watch.close()
	p.follower.Wait()
	p.entries.unwatch() // while the entries are still there
	return p.release()
}

func (p *Overwritable) release() (failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rings {
		r := &p.rings[i]
		if err := p.entries.empty(r.cpu); err != nil {
			unix.IoctlSetInt(r.event, unix.PERF_EVENT_IOC_DISABLE, 0) // outputs get EOPNOTSUPP
			failed = cmp.Or(failed, err)
		}
		written, refused := r.counts(p.attr.Read_format)
		p.written, p.refused = p.written+written, p.refused+refused
		unix.Munmap(r.memory)
		unix.Close(r.owner)
		if r.event != r.owner {
			unix.Close(r.event)
		}
	}
	p.rings = nil
	if p.provider != nil {
		p.provider.Close()
	}
	if p.entries != nil {
		p.entries.close()
		unix.Close(p.entries.fd)
	}
	return failed
}
