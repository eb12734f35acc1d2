package perfevent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// Events owns the perf events of a reader's rings and the entries in the user's map.
//
// libbpf stores the events that it opens in a map at once, and deletes them when it frees the
// rings. It gets the userMap's own map for that, so that only this package decides about the
// user's.
//
// libbpf creates a ring with one perf event, its owner, which stays the owner while it is mapped.
// Outputs go to it through that event, through the doorbell, or, after its CPU has been offline,
// through events that replaced both: see Reopen. Without libbpf this package opens and maps rings
// itself: see mapRings.
type Events struct {
	*host.Poller
	entries   *userMap // libbpf gets its own map
	setup     kernel.Setup
	overwrite bool // the kernel overwrites the rings
	attr      unix.PerfEventAttr
	epoll     int   // becomes readable at a wakeup; libbpf's, where it set the rings up
	bells     bool  // rings have doorbells
	noBells   error // why they have none
	replaced  int   // entries that held another reader's events
	clock     host.Clock
	memory    []*raw.Ring
	watch     *cpuWatch
	lanes     *host.Lanes // nil: no program counts outputs
	skipped   skipped

	// The kernel may reuse a closed descriptor's number, so any use of one needs mu.
	mu    sync.Mutex
	rings []ringEvents // in the order of the reader's rings
}

var _ interface {
	kernel.Named
	kernel.Entries
	kernel.Displaceable
	kernel.LostCounter
	kernel.LossCounter
	kernel.OutputCounter
	kernel.Shedder
	kernel.Hotplug
	kernel.Returning
	kernel.Watcher
} = (*Events)(nil)

type ringEvents struct {
	cpu    int
	pb     *libbpf.PerfBuffer
	index  int    // of the ring in pb
	memory []byte // of a ring from mapRings, which has no pb
	owner  int
	plain  int    // wakes the reader as the setup says
	bell   int    // wakes it at each output; 0: no doorbell
	lost   uint64 // counted by events closed since
}

// openEvents opens a ring for each CPU of the setup, and stores them in the user's map. On failure
// the map stays the caller's.
func openEvents(m *Map, setup kernel.Setup) (p *Events, err error) {
	if last := setup.CPUs[len(setup.CPUs)-1]; last >= m.info.MaxEntries {
		return nil, tooSmall(m.info, last)
	}
	p = &Events{watch: m.watch, setup: setup, overwrite: m.Overwrite, attr: *attr(setup)}
	if p.overwrite {
		p.attr.Bits |= unix.PerfBitWriteBackward
	}
	if p.clock, err = host.NewClock(setup.BootTime); err != nil {
		return nil, err
	}
	if p.entries, err = openUserMap(m.fd, m.info, p.clock); err != nil {
		return nil, err
	}
	err = p.openFirst(setup.CPUs)
	if errors.Is(err, syscall.EINVAL) && p.countsLost() {
		p.attr.Read_format &^= unix.PERF_FORMAT_LOST // before Linux 6.0
		err = p.openFirst(setup.CPUs)
	}
	if err != nil {
		p.entries.close()
		return nil, err
	}
	if err = p.finish(); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// finish prepares everything else for the rings, and stores them in the user's map.
func (p *Events) finish() (err error) {
	for i := range p.rings {
		r, err := p.ring(&p.rings[i])
		if err != nil {
			return fmt.Errorf("ring of CPU %d: %w", p.rings[i].cpu, err)
		}
		p.memory = append(p.memory, r)
	}
	if !p.overwrite { // nobody waits for those
		if err = p.openEpoll(); err != nil {
			return err
		}
		if p.Poller, err = host.NewPoller(p.epoll, true); err != nil {
			return err
		}
	}
	// Before the map has rings.
	if err = p.skipped.open(p.setup.ProgFDs); err != nil {
		return err
	}
	if p.lanes, err = host.OpenLanes(p.setup.Lanes, p.setup.RingBytes, false, p.clock.Now()); err != nil {
		return err
	}
	for i := range p.rings {
		p.measure(p.rings[i].cpu, p.memory[i])
	}
	if p.setup.Bell { // last, as rings work without it
		p.noBells = p.openBells()
	}
	p.replaced, err = p.store()
	return err
}

// openFirst opens the reader's initial rings.
func (p *Events) openFirst(cpus []int) (err error) {
	if p.rings, err = p.openRings(cpus); err != nil {
		free(p.rings)
		p.rings = nil
	}
	return err
}

// openRings opens the perf events of some CPUs and maps their rings. Their only events are the
// owners. After an error, the caller frees the rings too.
func (p *Events) openRings(cpus []int) ([]ringEvents, error) {
	if p.overwrite || !libbpf.Available {
		return p.mapRings(cpus)
	}
	pb, err := libbpf.NewRaw(p.entries.own, p.setup.RingBytes/os.Getpagesize(), &p.attr, cpus, cpus)
	if err != nil {
		return nil, err
	}
	rings := make([]ringEvents, len(cpus))
	for i, cpu := range cpus {
		owner, failed := pb.BufferFD(i)
		rings[i] = ringEvents{cpu: cpu, pb: pb, index: i, owner: owner, plain: owner}
		err = cmp.Or(err, failed)
	}
	return rings, err
}

func (p *Events) countsLost() bool { return p.attr.Read_format&unix.PERF_FORMAT_LOST != 0 }

// ring wraps the memory of a ring.
func (p *Events) ring(e *ringEvents) (_ *raw.Ring, err error) {
	var meta unsafe.Pointer
	var data []byte
	if e.pb == nil {
		// Invariant: the metadata page comes first, and free unmaps the memory after its last use.
		meta, data = unsafe.Pointer(unsafe.SliceData(e.memory)), e.memory[os.Getpagesize():]
	} else if meta, data, err = e.pb.Buffer(e.index); err != nil {
		return nil, err
	}
	layout := raw.LayoutRawTime
	if p.setup.NoTime {
		layout = raw.LayoutRaw
	}
	r, err := raw.New(meta, data, layout)
	if err == nil {
		r.SetCPU(e.cpu)
	}
	return r, err
}

// openBells gives all rings doorbells, or none.
func (p *Events) openBells() error {
	for i := range p.rings {
		if err := p.openBell(&p.rings[i]); err != nil {
			for j := range i {
				unix.Close(p.rings[j].bell)
				p.rings[j].bell = 0
			}
			return err
		}
	}
	p.bells = true
	return nil
}

func (p *Events) openBell(e *ringEvents) (err error) {
	attr := p.attr
	attr.Bits &^= unix.PerfBitWatermark
	attr.Wakeup = 1 // wakeup_events
	if e.bell, err = openOnto(e, attr); err != nil {
		return fmt.Errorf("no doorbell: %w", err)
	}
	return nil
}

// openOnto opens another perf event that outputs to a ring.
func openOnto(e *ringEvents, attr unix.PerfEventAttr) (int, error) {
	fd, err := unix.PerfEventOpen(&attr, -1, e.cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("perf_event_open of another perf event of CPU %d: %w", e.cpu, err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, e.owner); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("PERF_EVENT_IOC_SET_OUTPUT on CPU %d: %w", e.cpu, err)
	}
	return fd, nil
}

// Now returns CLOCK_MONOTONIC as the kernel reads it.
func (p *Events) Now() uint64 { return p.clock.Now() }

// Rings returns the rings that openEvents opened.
func (p *Events) Rings() []*raw.Ring { return p.memory }

// Bells returns why the rings have no doorbells.
func (p *Events) Bells() error { return p.noBells }

// Replaced returns how many of the map's entries held another reader's events.
func (p *Events) Replaced() int { return p.replaced }

// Map returns the id and name of the user's map.
func (p *Events) Map() (id int, name string) { return p.entries.ID, p.entries.Name }

// Grace calls grace.Open.
func (p *Events) Grace(o grace.Options) (grace.Provider, error) { return grace.Open(o) }

// PollFD returns the epoll descriptor that a wakeup makes readable.
func (p *Events) PollFD() int { return p.epoll }

// Group calls host.Group.
func (p *Events) Group() (kernel.Group, error) { return host.Group(p) }

// Outputs is what programs count themselves.
func (p *Events) Outputs() (o kernel.Outputs) {
	o.RecursionMisses, o.Err = p.skipped.look()
	o.CPUs = p.lanes.Outputs()
	return o
}

// Losses appends what programs have shed.
func (p *Events) Losses(into []kernel.CPULosses) []kernel.CPULosses { return p.lanes.Losses(into) }

// Shed implements kernel.Shedder.
func (p *Events) Shed(below int) bool { return p.lanes.Shed(below) }

// Lanes implements kernel.Shedder.
func (p *Events) Lanes() int { return p.lanes.Count() }

// measure tells programs from now on how full a CPU's ring is.
func (p *Events) measure(cpu int, r *raw.Ring) {
	r.SetGauge(p.lanes.Gauge(cpu))
	p.lanes.Read(cpu, true)
}

// close closes the ring's events, except its owner.
func (e *ringEvents) close() {
	for fd := range e.others {
		unix.Close(fd)
	}
}

// Free closes the events, unmaps the rings, and releases the maps.
func (p *Events) Free() {
	p.release()
	unix.Close(p.entries.fd)
}

// release is Free, except for the user's map.
func (p *Events) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	free(p.rings)
	p.entries.close()
	if p.Poller != nil {
		p.Poller.Close()
	}
	p.closeEpoll()
	p.skipped.close()
	p.lanes.Close()
}

// free closes the events of rings and unmaps them.
func free(rings []ringEvents) {
	var last *libbpf.PerfBuffer
	for _, e := range rings {
		e.close()
		switch {
		case e.pb == nil:
			unix.Munmap(e.memory)
			unix.Close(e.owner)
		case e.pb != last:
			e.pb.Free()
			last = e.pb
		}
	}
}

// others iterates over the ring's open events except its owner, which libbpf closes.
func (e *ringEvents) others(yield func(fd int) bool) {
	for _, fd := range [...]int{e.plain, e.bell} {
		if fd != 0 && fd != e.owner && !yield(fd) {
			return
		}
	}
}
