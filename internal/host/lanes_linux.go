package host

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/raw"
	"golang.org/x/sys/unix"
)

// Structs of bpf/perfbuf_lanes.h. Programs write them concurrently, except for what is ours.
type (
	refused struct {
		count, first, last uint64
		seen               uint64 // ours
	}
	lane struct {
		written    uint64 // outputs in the low half, their words in the high half
		shed, full refused
		failed     [7]uint64
	}
	gauge struct { // ours
		taken  uint32
		limits [mostLanes]uint32
		owner  uint32 // the latest reader: one that it has displaced leaves its limits alone
	}
)

const (
	mostLanes       = 14
	gaugeSize       = int(unsafe.Sizeof(gauge{}))
	laneSize        = int(unsafe.Sizeof(lane{}))
	mapFlagMmapable = 1 << 10 // BPF_F_MMAPABLE
)

// Lanes reads and steers what programs count in a map that is mapped: without system calls. nil has
// no lanes.
type Lanes struct {
	shares []int  // of each lane, in percent
	full   bool   // programs alone know when they found no room
	since  uint64 // the time of OpenLanes
	owner  uint32 // a random number
	cpus   []laneCPU

	mu     sync.Mutex
	bytes  int    // of rings whose CPU's size is not known
	memory []byte // nil after Close
	shed   int    // lanes below it are shed, whatever room there is
	final  []kernel.CPUOutputs
}

type laneCPU struct {
	cpu   int // -1: several
	gauge *gauge
	lanes []counted
	bytes int  // of the CPU's own ring; 0: see Lanes
	reads bool // the reader has a ring of the CPU, and its limits hold
}

// counted is a lane, and what of its counts is known.
type counted struct {
	*lane
	before     kernel.CPUOutputs // at OpenLanes
	written    uint64            // lane.written has half as many bits
	shed, full uint64            // as told
}

// OpenLanes maps the lanes of a map, if the setup names one, and gives each its share of rings of
// so many bytes. full says that programs alone know when outputs found no room.
func OpenLanes(want kernel.Lanes, ringBytes int, full bool, now uint64) (*Lanes, error) {
	if want.MapFD == 0 {
		return nil, nil
	}
	fd, m, err := DupMap(want.MapFD)
	if err != nil {
		return nil, fmt.Errorf("LanesFD: %w", err)
	}
	defer unix.Close(fd) // the mapping keeps the map
	n := (m.ValueSize - gaugeSize) / laneSize
	if m.Type != bpf.MapTypeArray || m.KeySize != 4 || n < 1 || n > mostLanes || m.ValueSize != gaugeSize+n*laneSize || m.Flags&mapFlagMmapable == 0 {
		return nil, m.Fail("it is of type %s, with values of %d bytes and flags %#x: as LanesFD, pass a map that PERFBUF_LANES of bpf/perfbuf_lanes.h has "+
			"defined, which has type BPF_MAP_TYPE_ARRAY (2), %d bytes and %d for each of 1 to %d lanes, and BPF_F_MMAPABLE (%#x)",
			m.TypeName(), m.ValueSize, m.Flags, gaugeSize, laneSize, mostLanes, mapFlagMmapable)
	}
	if len(want.Percent) > n {
		return nil, m.Fail("it has %d lanes, but Lanes has %d shares: give one for each lane", n, len(want.Percent))
	}
	possible, err := cpulist.Possible(cpulist.Dir)
	if err != nil {
		return nil, err
	}
	last := possible[len(possible)-1]
	if last >= m.MaxEntries && !full {
		return nil, m.Fail("it has %d entries, but there may be a CPU %d: define PERFBUF_CPUS as %d or more before the #include", m.MaxEntries, last, last+1)
	}
	shares := append(slices.Clone(want.Percent), slices.Repeat([]int{100}, n-len(want.Percent))...)
	l := &Lanes{full: full, since: now, shares: shares, owner: rand.Uint32(), bytes: ringBytes}
	page := os.Getpagesize()
	if l.memory, err = unix.Mmap(fd, 0, (m.MaxEntries*m.ValueSize+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, RefusedMapping(fd, fmt.Errorf("mmap of map %q (id %d): %w", m.Name, m.ID, err))
	}
	for cpu := range min(m.MaxEntries, last+1) {
		l.cpus = append(l.cpus, newLaneCPU(l.memory[cpu*m.ValueSize:][:m.ValueSize], cpu, n))
		atomic.StoreUint32(&l.cpus[cpu].gauge.owner, l.owner)
		l.set(&l.cpus[cpu]) // a reader may have been killed
	}
	if last >= m.MaxEntries {
		l.cpus[m.MaxEntries-1].cpu = -1
	}
	return l, nil
}

// newLaneCPU finds n lanes in a CPU's value, without limits, and their counts so far.
func newLaneCPU(value []byte, cpu, n int) laneCPU {
	// Invariant: array_map_mmap maps the values in a row, each a multiple of 8 bytes, until Munmap,
	// and the value is gaugeSize and n times laneSize long.
	at := unsafe.Pointer(unsafe.SliceData(value))
	c := laneCPU{cpu: cpu, gauge: (*gauge)(at), lanes: make([]counted, n)}
	for i := range c.lanes {
		l := &c.lanes[i]
		l.lane = (*lane)(unsafe.Add(at, gaugeSize+i*laneSize))
		l.written = uint64(uint32(atomic.LoadUint64(&l.lane.written)))
		l.shed, l.full = l.lane.shed.look(), l.lane.full.look()
		l.before = l.outputs()
	}
	return c
}

// look returns the count so far. The next output that is refused stores first.
func (r *refused) look() uint64 {
	n := atomic.LoadUint64(&r.count)
	atomic.StoreUint64(&r.seen, n)
	return n
}

// outputs returns all counts of a lane so far.
func (l *counted) outputs() (o kernel.CPUOutputs) {
	l.extend()
	o.Written, o.Shed, o.Full = l.written, atomic.LoadUint64(&l.lane.shed.count), atomic.LoadUint64(&l.lane.full.count)
	o.Attempted = o.Written + o.Shed + o.Full
	for i, n := range [...]*uint64{&o.Full, &o.NoRing, &o.Nested, &o.Offline, &o.NoEntry, &o.TooLarge, &o.Other} {
		failed := atomic.LoadUint64(&l.failed[i])
		*n += failed
		o.Attempted += failed
	}
	return o
}

// extend counts what was written since the previous call, which is less than 2^32: each pass calls
// it, and so many outputs take minutes.
func (l *counted) extend() {
	l.written += uint64(uint32(atomic.LoadUint64(&l.lane.written)) - uint32(l.written))
}

// Gauge returns what tells a CPU's programs how full its ring is.
func (l *Lanes) Gauge(cpu int) *raw.Gauge {
	if l == nil {
		return nil
	}
	c := &l.cpus[cpu]
	g := &raw.Gauge{Taken: &c.gauge.taken}
	for i := range c.lanes {
		g.Written = append(g.Written, &c.lanes[i].lane.written)
	}
	return g
}

// Read makes the limits of a CPU's lanes hold, or of all CPUs' if it is below 0, or removes them:
// where nobody reads, outputs fail without them.
func (l *Lanes) Read(cpu int, reads bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.cpus {
		if c := &l.cpus[i]; (cpu < 0 || c.cpu == cpu) && c.reads != reads {
			c.reads = reads
			l.set(c)
		}
	}
}

// Count returns the number of lanes.
func (l *Lanes) Count() int {
	if l == nil {
		return 0
	}
	return len(l.shares)
}

// Resize sets how many bytes a CPU's ring has or, if cpu is below 0, the rings of CPUs whose size
// is not known.
func (l *Lanes) Resize(cpu, bytes int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cpu < 0 {
		l.bytes = bytes
	}
	for i := range l.cpus {
		c := &l.cpus[i]
		if cpu >= 0 && c.cpu == cpu {
			c.bytes = bytes
		}
		l.set(c)
	}
}

// Shed sheds all outputs in lanes below this one. It returns false if there are not so many.
func (l *Lanes) Shed(below int) bool {
	if l == nil || below < 0 || below > len(l.shares) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shed = below
	for i := range l.cpus {
		l.set(&l.cpus[i])
	}
	return true
}

// set stores a CPU's limits, none where nobody reads. Nothing fits below the lane shed.
func (l *Lanes) set(c *laneCPU) {
	if l.memory == nil || atomic.LoadUint32(&c.gauge.owner) != l.owner {
		return
	}
	words := uint64(cmp.Or(c.bytes, l.bytes)) / 8
	for i, percent := range l.shares {
		limit := uint32(0) // none
		switch {
		case !c.reads:
		case i < l.shed:
			limit = 1
		case percent < 100:
			limit = max(uint32(words*uint64(percent)/100), 1)
		}
		atomic.StoreUint32(&c.gauge.limits[i], limit)
	}
}

// Losses appends what was shed or found no room since the previous call, for each CPU and lane that
// has any.
func (l *Lanes) Losses(into []kernel.CPULosses) []kernel.CPULosses {
	if l == nil {
		return into
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil {
		return into
	}
	for _, c := range l.cpus {
		for i := range c.lanes {
			lane := &c.lanes[i]
			lane.extend()
			loss := kernel.CPULosses{CPU: c.cpu, Lane: i, Shed: true}
			into = l.tell(into, loss, &lane.lane.shed, &lane.shed)
			if loss.Shed = false; l.full {
				into = l.tell(into, loss, &lane.lane.full, &lane.full)
			}
		}
	}
	return into
}

func (l *Lanes) tell(into []kernel.CPULosses, loss kernel.CPULosses, r *refused, told *uint64) []kernel.CPULosses {
	// Load the count first: a program adds to it before it stores the times. A loss whose own times
	// are not stored yet gets the previous ones.
	n := atomic.LoadUint64(&r.count)
	if n == *told {
		return into
	}
	first, last := atomic.LoadUint64(&r.first), atomic.LoadUint64(&r.last)
	atomic.StoreUint64(&r.seen, n) // the next one, after this many, stores first
	first = max(first, l.since)    // the very first may not have stored it yet
	loss.Count, loss.First, loss.Last = n-*told, first, max(first, last)
	*told = n
	return append(into, loss)
}

// Outputs returns the counts of each CPU and lane from OpenLanes until now, or until Close.
func (l *Lanes) Outputs() []kernel.CPUOutputs {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outputs()
}

func (l *Lanes) outputs() []kernel.CPUOutputs {
	if l.memory == nil {
		return slices.Clone(l.final)
	}
	var all []kernel.CPUOutputs
	for i := range l.cpus {
		c := &l.cpus[i]
		for k := range c.lanes {
			o := c.lanes[k].outputs()
			for j, n := range c.lanes[k].before.Counts() {
				*o.Counts()[j] -= *n
			}
			o.CPU, o.Lane = c.cpu, k
			all = append(all, o)
		}
	}
	return all
}

// Close removes all limits, and unmaps the lanes. The counts stay.
func (l *Lanes) Close() {
	if l == nil {
		return
	}
	l.Read(-1, false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = l.outputs()
	unix.Munmap(l.memory)
	l.memory = nil
}
