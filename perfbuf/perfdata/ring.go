package perfdata

import (
	"bytes"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
)

// ring is the kernel's side of a ring in Go memory. put writes a record as perf_output_begin does.
type ring struct {
	meta []uint64 // struct perf_event_mmap_page
	data []byte
	raw  *raw.Ring
	head uint64
	bad  bool // damage is in it, behind which nothing may come before it is read
}

const (
	leastRing = 4096
	leastLive = 2 * mostBytes  // of a ring whose events are not known beforehand
	mostBytes = mostRecord + 8 // so that the largest record fits, and a ring is never full
)

// newRing makes a ring of a size that is wanted, or less if all that will be in it is less.
func newRing(cpu, size int, all uint64, layout raw.Layout) (*ring, error) {
	size = max(size, leastLive)
	if all < uint64(size) {
		size = max(int(all)+8, leastRing)
	}
	size = 1 << bits.Len(uint(size-1))
	words := make([]uint64, size/8)
	r := &ring{meta: make([]uint64, 4096/8)}
	// invariant: size/8 words
	r.data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
	var err error
	// Invariant: meta is a page, data a power of two; both are aligned, and raw keeps them
	// reachable.
	if r.raw, err = raw.New(unsafe.Pointer(unsafe.SliceData(r.meta)), r.data, layout); err == nil {
		r.raw.SetCPU(cpu)
	}
	return r, err
}

// size is how many bytes an entry takes in a ring: 8 more of a sample that has to say its CPU.
func (e *entry) size() uint64 {
	switch e.kind {
	case sample:
		return uint64(20+len(e.payload)+7) &^ 7 // header, time, raw_size
	case lost:
		if e.counted {
			return raw.SizeCounted + uint64(len(e.payload)+7)&^7
		}
		return 32 // header, id, lost, time
	default:
		return 8
	}
}

// put publishes an entry, if there is room.
func (r *ring) put(e *entry) bool {
	size, cpu := e.size(), r.raw.Layout() == raw.LayoutRawTimeCPU && e.kind == sample
	if cpu {
		size += 8
	}
	used := r.head - r.raw.Tail()
	if used+size >= uint64(len(r.data)) || r.bad && used > 0 {
		return false
	}
	var b [raw.SizeCounted]byte
	switch e.kind {
	case sample:
		putHeader(b[:], typeSample, int(size))
		native.PutUint64(b[8:], e.time)
		at := uint64(16)
		if cpu {
			native.PutUint32(b[16:], uint32(e.cpu))
			at = 24
		}
		native.PutUint32(b[at:], uint32(len(e.payload)))
		r.copy(r.head, b[:at+4])
		r.copy(r.head+at+4, e.payload)
	case lost:
		putHeader(b[:], typeLost, int(size))
		native.PutUint64(b[8:], e.after)
		native.PutUint64(b[16:], e.lost)
		native.PutUint64(b[24:], e.time)
		native.PutUint32(b[32:], uint32(e.cpu))
		native.PutUint32(b[36:], e.lane)
		if !e.counted {
			r.copy(r.head, b[:size])
			break
		}
		r.copy(r.head, b[:])
		r.copy(r.head+raw.SizeCounted, append(bytes.Clone(e.payload), make([]byte, -len(e.payload)&7)...))
	case corrupt:
		r.copy(r.head, b[:8]) // a header.size of 0
	}
	r.bad = e.kind == corrupt
	r.head += size
	atomic.StoreUint64(&r.meta[raw.HeadWord], r.head) // data_head, after the bytes
	return true
}

// empty takes back the entries that were put. Nobody has read from the ring.
func (r *ring) empty() {
	r.head, r.bad = 0, false
	atomic.StoreUint64(&r.meta[raw.HeadWord], 0)
}

func (r *ring) copy(at uint64, b []byte) {
	n := copy(r.data[at&uint64(len(r.data)-1):], b)
	copy(r.data, b[n:])
}
