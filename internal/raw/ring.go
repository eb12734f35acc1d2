// Package raw reads the memory of one ring: of a perf ring buffer, which is a metadata page that holds data_head and
// data_tail, and a power-of-two number of data bytes that follow it; or of a BPF ring buffer, where the
// two are called producer_pos and consumer_pos, and the data bytes lie there twice in a row. It makes no system call,
// starts no goroutine and allocates nothing per record, and it works on any 8-byte aligned memory:
// on a ring shared with the kernel and on plain Go memory alike.
//
// Trust: offsets come from the kernel, and so do all bytes, but a program that outputs more than 64
// KiB at once makes the kernel write nonsense into the ring (header.size is 16 bits wide and
// wraps). So no byte is believed: each header is checked before it is used, and nothing outside the
// ring is read.
package raw

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"
)

// Where struct perf_event_mmap_page (include/uapi/linux/perf_event.h) has the two words that ring
// and kernel share.
const (
	HeadWord = 1024 / 8 // data_head
	TailWord = 1032 / 8 // data_tail
	metaSize = 1088     // bytes up to aux_size, the last member
)

// Layout says which fields a record has, that is, which sample_type its perf event was opened with.
type Layout uint8

const (
	// LayoutRaw is PERF_SAMPLE_RAW: no record has a time.
	LayoutRaw Layout = iota
	// LayoutRawTime is PERF_SAMPLE_RAW | PERF_SAMPLE_TIME with sample_id_all: samples and losses have a time.
	LayoutRawTime
	// LayoutRingBuf is that of a BPF ring buffer: samples have a length and no time.
	LayoutRingBuf
)

// Ring is the reading side of one ring. It holds no position: that is its user's, who
// may keep one of its own ahead of the published tail.
type Ring struct {
	head, tail *uint64        // shared with the kernel
	data       unsafe.Pointer // the first data byte
	mask       uint64         // data bytes - 1
	rawSize    uint64         // where in a sample the u32 raw_size is: 8, or 16 behind a time
	layout     Layout
	cpu        int32 // the views refer to it
	timeAt     int   // see SetFields
	cpuAt      int
	view       View // of the data bytes
	seen       uint64
	source     any

	Losses Losses
}

// New describes a ring: meta points to its metadata page, data is all of its data bytes. Both must
// stay mapped, or reachable, for as long as the Ring is used. len(data) must be a power of two and
// at least 64.
func New(meta unsafe.Pointer, data []byte, layout Layout) (*Ring, error) {
	n := len(data)
	if n < 64 || n&(n-1) != 0 {
		return nil, fmt.Errorf("ring of %d data bytes: must be a power of two, at least 64", n)
	}
	base := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(meta)&7 != 0 || uintptr(base)&7 != 0 {
		return nil, fmt.Errorf("ring memory at %p and %p: must be aligned to 8 bytes", meta, base)
	}
	// Invariant: the caller's metadata page is at least metaSize long.
	return newRing((*uint64)(unsafe.Add(meta, 8*HeadWord)), (*uint64)(unsafe.Add(meta, 8*TailWord)), base, uint64(n), uint64(n), layout), nil
}

// newRing describes a ring of n bytes, and its memory, which is so many bytes in one piece.
func newRing(head, tail *uint64, base unsafe.Pointer, n, memory uint64, layout Layout) *Ring {
	r := &Ring{head: head, tail: tail, data: base, mask: n - 1}
	r.describe(memory, layout)
	return r
}

// describe says how the records lie in so many bytes of memory.
func (r *Ring) describe(memory uint64, layout Layout) {
	r.layout = layout
	r.view.size = memory
	r.rawSize = r.bare().body
	r.SetFields(-1, -1)
}

// NewCopy makes a Ring of memory to which records of another one are copied, with the same fields. Offsets count from
// its first byte. It has no head and no tail. words are as many as a power of two, at least 8,
// with a word more behind: there begins a payload of no bytes that a ring buffer's record at the end has.
func NewCopy(of *Ring, words []uint64) *Ring {
	n := 8 * uint64(len(words))
	r := newRing(&noCounters[0], &noCounters[1], unsafe.Pointer(unsafe.SliceData(words)), n, n, of.layout)
	r.CopyOf(of)
	return r
}

// CopyOf makes a copy one of another ring, in the same memory.
func (r *Ring) CopyOf(of *Ring) {
	r.describe(r.mask+1, of.layout)
	r.SetCPU(of.CPU())
	r.SetSource(of.source)
	r.SetFields(of.timeAt, of.cpuAt)
}

// Clone makes another reading side of the same ring, with the same CPU and fields and no source.
func (r *Ring) Clone() *Ring {
	c := newRing(r.head, r.tail, r.data, r.mask+1, r.view.size, r.layout)
	c.SetCPU(r.CPU())
	c.SetFields(r.timeAt, r.cpuAt)
	return c
}

// noCounters stands in for head and tail where there are none.
var noCounters [2]uint64

// Size returns the number of data bytes.
func (r *Ring) Size() uint64 { return r.mask + 1 }

// SetCPU says whose ring it is, which is what its events say. It is for before they are read.
func (r *Ring) SetCPU(cpu int) { r.cpu = int32(cpu) }

// bare is the view of the data bytes without fields of payloads.
func (r *Ring) bare() View { return newView(r.data, r.view.size, r.layout, r) }

// SetSource says what the ring's events come from. It is for before they are read.
func (r *Ring) SetSource(source any) { r.source = source }

// CPU is the number of the ring's CPU, -1 if it has none.
func (r *Ring) CPU() int { return int(r.cpu) }

// SetFields says where in the payload of a sample its time (u64, ns) and its CPU (u32) are; below 0: nowhere. A sample
// that is too short for one of them has the record's time, or the ring's CPU. It is for before events are read.
func (r *Ring) SetFields(timeAt, cpuAt int) {
	r.timeAt, r.cpuAt = timeAt, cpuAt
	r.view = r.bare().fields(timeAt, cpuAt, math.MaxInt64) // Sample compares as signed numbers
}

// TimeAt is where in a payload its time is; below 0: it is the record's.
func (r *Ring) TimeAt() int { return r.timeAt }

// View is the ring's data bytes.
func (r *Ring) View() *View { return &r.view }

// At is where a record that begins at this offset lies in View.
func (r *Ring) At(off uint64) uint64 { return off & r.mask }

// Layout is how the ring's records are laid out.
func (r *Ring) Layout() Layout { return r.layout }

// Copy copies the len(to) bytes from offset off on, which is at most the ring's size.
func (r *Ring) Copy(to []byte, off uint64) {
	// Invariant: the ring's memory is mask+1 bytes at data.
	data := unsafe.Slice((*byte)(r.data), r.mask+1)
	n := copy(to, data[off&r.mask:])
	copy(to[n:], data)
}

// CopyWords is Copy of n bytes, a multiple of 8, to memory that is aligned as records are.
func (r *Ring) CopyWords(to []uint64, off, n uint64) {
	r.Copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(to))), 8*len(to))[:n], off) // invariant: 8 bytes each
}

// Payload8 reads 8 bytes of the payload of a sample that Parse has found, from a byte of it on; ok is false if it ends before.
func (r *Ring) Payload8(rec *Record, at int) (v uint64, ok bool) {
	if at < 0 || uint64(at)+8 > uint64(rec.Len) {
		return 0, false
	}
	if p := r.At(rec.Off) + r.rawSize + 4 + uint64(at); p+8 <= r.view.size {
		return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(r.data, p))[:]), true // invariant: as just compared
	}
	var b [8]byte
	r.Copy(b[:], rec.Off+r.rawSize+4+uint64(at))
	return binary.NativeEndian.Uint64(b[:]), true
}

// Head returns data_head: the free-running count of bytes that the kernel has published. Every
// record below it is fully written. Of a BPF ring buffer it is producer_pos: every record below it is reserved, and has
// a length.
//
// The load has acquire semantics. It pairs with the smp_wmb in perf_output_put_handle
// (kernel/events/ring_buffer.c), which orders the record's bytes before the store of data_head; and with the
// smp_store_release of producer_pos in __bpf_ringbuf_reserve (kernel/bpf/ringbuf.c), behind that of the header.
//
// Records are multiples of 8 bytes, so the kernel's value is too; a value that is not is rounded
// down, which keeps every header within the ring.
func (r *Ring) Head() uint64 { return atomic.LoadUint64(r.head) &^ 7 }

// Tail returns data_tail, or consumer_pos, as last published, rounded like Head.
func (r *Ring) Tail() uint64 { return atomic.LoadUint64(r.tail) &^ 7 }

// SetTail publishes data_tail: the kernel may overwrite every byte below t.
//
// The store is a full barrier on amd64 and a release elsewhere, so no read of the freed bytes moves
// below it. It pairs with the control dependency on the load of data_tail in __perf_output_begin
// (kernel/events/ring_buffer.c), and with the smp_load_acquire of consumer_pos in __bpf_ringbuf_reserve. Go's store
// also comes before all loads behind it, as kernel and reader of a BPF ring buffer each store and then look at what the other has
// stored: a record that Busy finds is committed by a program that finds this tail, and wakes the reader.
func (r *Ring) SetTail(t uint64) { atomic.StoreUint64(r.tail, t) }
