package ringbuf

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// slot is one CPU's struct perfbuf_ringbuf_losses of bpf/perfbuf_ringbuf.h. Programs on that CPU
// write all fields but taken, concurrently.
type slot struct {
	attempted, failed, first, last, taken uint64
	_                                     [3]uint64
}

const mapFlagMmapable = 1 << 10 // BPF_F_MMAPABLE

// losses reads the counters of a map that is mapped: reading takes no system call. nil has no
// counters.
type losses struct {
	mu     sync.Mutex
	memory []byte
	slots  []slot // in memory; nil after close
	cpus   []int  // of each slot; -1: of several CPUs
	begin  []slot // at openLosses
	seen   []uint64
	since  uint64 // the time of openLosses
	final  kernel.Outputs
}

func openLosses(mapFD int, now uint64) (*losses, error) {
	if mapFD == 0 {
		return nil, nil
	}
	fd, m, err := host.DupMap(mapFD)
	if err != nil {
		return nil, fmt.Errorf("the map of losses: %w", err)
	}
	defer unix.Close(fd) // the mapping keeps the map
	size := int(unsafe.Sizeof(slot{}))
	if m.Type != bpf.MapTypeArray || m.KeySize != 4 || m.ValueSize != size || m.Flags&mapFlagMmapable == 0 {
		return nil, m.Fail("it is of type %s, with values of %d bytes and flags %#x: for losses, pass a map that PERFBUF_RINGBUF_LOSSES of bpf/perfbuf_ringbuf.h has "+
			"defined, which has type BPF_MAP_TYPE_ARRAY (2), %d bytes and BPF_F_MMAPABLE (%#x)", m.TypeName(), m.ValueSize, m.Flags, size, mapFlagMmapable)
	}
	possible, err := cpulist.Possible(cpulist.Dir)
	if err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	l := &losses{since: now}
	if l.memory, err = unix.Mmap(fd, 0, (m.MaxEntries*size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, refusedMapping(fd, fmt.Errorf("mmap of map %q (id %d): %w", m.Name, m.ID, err))
	}
	// Invariant: array_map_mmap maps the values in a row, each of the size of a slot, until Munmap.
	all := unsafe.Slice((*slot)(unsafe.Pointer(&l.memory[0])), m.MaxEntries)
	for cpu := range min(m.MaxEntries, possible[len(possible)-1]+1) {
		l.cpus = append(l.cpus, cpu)
	}
	l.slots = all[:len(l.cpus)]
	if last := m.MaxEntries - 1; possible[len(possible)-1] > last {
		l.cpus[last] = -1
	}
	for i := range l.slots {
		s := &l.slots[i]
		l.begin = append(l.begin, slot{attempted: atomic.LoadUint64(&s.attempted), failed: atomic.LoadUint64(&s.failed)})
		l.seen = append(l.seen, l.begin[i].failed)
		atomic.StoreUint64(&s.taken, l.begin[i].failed)
	}
	return l, nil
}

// take appends the losses since the previous call, for each CPU that has any.
func (l *losses) take(into []kernel.CPULosses) []kernel.CPULosses {
	if l == nil {
		return into
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.slots {
		s := &l.slots[i]
		// Load the count first: a program adds to it before it stores the times. A loss whose own
		// times are not stored yet gets the previous ones.
		failed := atomic.LoadUint64(&s.failed)
		if failed == l.seen[i] {
			continue
		}
		first, last := atomic.LoadUint64(&s.first), atomic.LoadUint64(&s.last)
		atomic.StoreUint64(&s.taken, failed) // the next failure, after this many, stores first
		first = max(first, l.since)          // the very first loss may not have stored it yet
		into = append(into, kernel.CPULosses{CPU: l.cpus[i], Count: failed - l.seen[i], First: first, Last: max(first, last)})
		l.seen[i] = failed
	}
	return into
}

// outputs returns the counts from openLosses until now, or until close.
func (l *losses) outputs() kernel.Outputs {
	if l == nil {
		return kernel.Outputs{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		return l.final
	}
	return l.count()
}

func (l *losses) count() (o kernel.Outputs) {
	for i := range l.slots {
		// Load failures first: a program counts the attempt before the failure.
		full := atomic.LoadUint64(&l.slots[i].failed) - l.begin[i].failed
		tried := atomic.LoadUint64(&l.slots[i].attempted) - l.begin[i].attempted
		o.CPUs = append(o.CPUs, kernel.CPUOutputs{CPU: l.cpus[i], Attempted: tried, Written: max(tried, full) - full, Full: full})
	}
	return o
}

func (l *losses) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = l.count()
	l.slots = nil
	unix.Munmap(l.memory)
}
