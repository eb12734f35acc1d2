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

// Overwritable is rings that the kernel overwrites, one for each CPU, in the user's map. libbpf maps rings read-write, which makes them such
// as fill up (perf_mmap in kernel/events/core.c), so these are opened and mapped here.
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

// OverwriteSetup is what such rings are to be like.
type OverwriteSetup struct {
	CPUs      []int // in order
	Follow    []int // of CPUs that come later, those that are to have rings; nil: all
	RingBytes int   // data bytes of each, a power of two of pages
	Grace     grace.Options
}

// overwritten is one of the rings. The event that it is mapped by lives as long as the ring. Outputs come through event, another one since the
// CPU was offline: see Alive in hotplug_linux.go.
type overwritten struct {
	cpu          int
	owner, event int
	memory       []byte
	ring         *raw.Ring
	began        uint64
}

// OpenOverwritable opens rings and stores them in the map that fd refers to. setup chooses them, given the CPUs that are online.
func OpenOverwritable(fd int, setup func(online []int) (OverwriteSetup, error)) (*Overwritable, error) {
	for try := 1; ; try++ {
		p, err := openOverwritable(fd, setup)
		if err == nil {
			p.follower.Go(p.follow)
			return p, nil
		}
		if !errors.Is(err, syscall.ENODEV) || try == 5 { // a CPU has gone offline since the list was read
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
	p.watch = watchCPUs() // before the list is read
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
	// It waits for outputs that have found the map's entries of before.
	if p.provider, err = grace.Open(p.setup.Grace); err != nil {
		return nil, fmt.Errorf("flight.Open: %w", err)
	}
	for i := range p.rings {
		p.rings[i].began = p.Now()
	}
	p.entries.watch(nil)
	return p, nil
}

// overwriteAttr wakes nobody: there is no poller. The kernel takes note once a ring's size (rb->watermark in ring_buffer_init,
// kernel/events/ring_buffer.c), instead of twice.
func overwriteAttr() *unix.PerfEventAttr {
	a := attr(kernel.Setup{WakeupBytes: math.MaxInt32})
	a.Bits |= unix.PerfBitWriteBackward
	return a
}

// callError says which system call has failed.
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

// open opens the ring of a CPU. It is not in the map yet.
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
	// Invariant: the metadata page comes first. The mapping is there until release, which is after the last use of the ring.
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

// OverwrittenRing is a ring, and since when all outputs have come to it.
type OverwrittenRing struct {
	*raw.Ring
	Began uint64
}

// Rings returns the rings there are. They are mapped until Close.
func (p *Overwritable) Rings() (rings []OverwrittenRing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rings {
		rings = append(rings, OverwrittenRing{p.rings[i].ring, p.rings[i].began})
	}
	return rings
}

// Pause has all outputs to these rings refused with ENOSPC, or accepted again (rb_toggle_paused in kernel/events/ring_buffer.c). Outputs that
// are under way go on. Refused ones are counted, and reported by the next that is not.
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

// Wait is that of grace.Provider.
func (p *Overwritable) Wait() error { return p.provider.Wait() }

// Now is the kernel's CLOCK_MONOTONIC.
func (p *Overwritable) Now() uint64 { return p.clock.Now() }

// Barrier names the way to wait.
func (p *Overwritable) Barrier() string { return p.provider.Name() }

// Replaced is how many of the map's entries were another reader's.
func (p *Overwritable) Replaced() int { return p.replaced }

// Displaced looks at the map's entries, and returns what other readers have done to them. After Close it
// returns what the last look has found.
func (p *Overwritable) Displaced() kernel.Displaced {
	p.entries.lookAround()
	return p.entries.displaced()
}

// Hotplug is how many CPUs have got rings, or got them back, and why the latest has not, if so.
func (p *Overwritable) Hotplug() (n uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.added, cmp.Or(p.hot, p.watch.err())
}

// Counts is how many bytes have been output ever, and how many outputs were refused while paused, which Linux before 6.0 does not tell. It
// interrupts CPUs. After Close it is what it was then.
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
	return -r.ring.Head(), refused // it counts down from 0
}

// Close empties those of the map's entries that are still this reader's, unmaps the rings, and lets the map go. No one may use the rings from then on.
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
			unix.IoctlSetInt(r.event, unix.PERF_EVENT_IOC_DISABLE, 0) // outputs then fail with EOPNOTSUPP
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
