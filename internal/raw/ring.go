// Package raw reads the memory of one ring. A perf ring is a metadata page with data_head and
// data_tail, followed by a power-of-two number of data bytes. A BPF ring buffer calls the two
// producer_pos and consumer_pos, and maps its data bytes twice in a row. The package makes no
// system call, starts no goroutine and allocates nothing per record. It works on any 8-byte aligned
// memory, shared with the kernel or plain Go memory.
//
// Trust: offsets and bytes come from the kernel. But a program that outputs more than 64 KiB at
// once makes the kernel write nonsense into the ring, as header.size wraps at 16 bits. So Parse
// checks each header before use, and reads nothing outside the ring.
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

// Layout selects the fields of a record: the sample_type of the ring's perf event.
type Layout uint8

const (
	// LayoutRaw is PERF_SAMPLE_RAW: no record has a time.
	LayoutRaw Layout = iota
	// LayoutRawTime is PERF_SAMPLE_RAW | PERF_SAMPLE_TIME with sample_id_all: samples and losses
	// have a time.
	LayoutRawTime
	// LayoutRawTimeCPU is PERF_SAMPLE_RAW | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU: samples say their
	// CPU. Rings of a recording that is still being made have it.
	LayoutRawTimeCPU
	// LayoutRingBuf is that of a BPF ring buffer: samples have a length and no time.
	LayoutRingBuf
)

// Ring is the reading side of one ring. It holds no position: its user may keep one ahead of the
// published tail.
type Ring struct {
	head, tail *uint64        // shared with the kernel
	data       unsafe.Pointer // the first data byte
	mask       uint64         // data bytes - 1
	rawSize    uint64         // where in a sample the u32 raw_size is: 8, 16 after a time, or 24 after time and CPU
	layout     Layout
	cpu        int32 // the views refer to it
	timeAt     int   // see SetFields
	cpuAt      int
	view       View // of the data bytes
	seen       uint64
	source     string
	gauge      *Gauge // nil: programs need not know how full the ring is

	overwritten, pending *uint64 // see SetOverwritten

	Losses Losses
}

// New describes a ring: meta points to its metadata page, data is all of its data bytes. Both must
// stay mapped, or reachable, as long as the Ring is used. len(data) must be a power of two, at
// least 64.
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

// newRing describes a ring of n bytes, in contiguous memory of that many bytes.
func newRing(head, tail *uint64, base unsafe.Pointer, n, memory uint64, layout Layout) *Ring {
	r := &Ring{head: head, tail: tail, data: base, mask: n - 1}
	r.describe(memory, layout)
	return r
}

// describe sets the layout of records in that many bytes of memory.
func (r *Ring) describe(memory uint64, layout Layout) {
	r.layout = layout
	r.view.size = memory
	r.rawSize = r.bare().body
	r.SetFields(-1, -1)
}

// NewCopy makes a Ring of words, for copies of another ring's records, with the same fields.
// Offsets count from its first byte. It has no head and no tail. len(words) is a power of two, at
// least 8, with capacity for one word more: an empty payload of a ring buffer's last record begins
// there.
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

// noCounters replaces head and tail in a Ring without them.
var noCounters [2]uint64

// Size returns the number of data bytes.
func (r *Ring) Size() uint64 { return r.mask + 1 }

// SetCPU sets the CPU of the ring and its events. Call it before reading any.
func (r *Ring) SetCPU(cpu int) { r.cpu = int32(cpu) }

// bare returns a view of the data bytes without fields of payloads.
func (r *Ring) bare() View { return newView(r.data, r.view.size, r.layout, r) }

// SetSource sets the name of the source of the ring's events. Call it before reading any.
func (r *Ring) SetSource(source string) { r.source = source }

// CPU returns the number of the ring's CPU, or -1 if it has none.
func (r *Ring) CPU() int { return int(r.cpu) }

// SetFields sets the offsets of a sample's time (u64, ns) and CPU (u32) in its payload; below 0:
// none. A sample too short for one has the record's time, or the ring's CPU. Call it before reading
// any.
func (r *Ring) SetFields(timeAt, cpuAt int) {
	r.timeAt, r.cpuAt = timeAt, cpuAt
	r.view = r.bare().fields(timeAt, cpuAt, math.MaxInt64) // Sample compares as signed numbers
}

// TimeAt returns the offset of the time in a payload; below 0: the record's time counts.
func (r *Ring) TimeAt() int { return r.timeAt }

// View returns the view of the ring's data bytes.
func (r *Ring) View() *View { return &r.view }

// At returns the position in View of a record at this offset.
func (r *Ring) At(off uint64) uint64 { return off & r.mask }

// Layout returns the layout of the ring's records.
func (r *Ring) Layout() Layout { return r.layout }

// Copy copies len(to) bytes from offset off on, at most the ring's size.
func (r *Ring) Copy(to []byte, off uint64) {
	// Invariant: the ring's memory is mask+1 bytes at data.
	data := unsafe.Slice((*byte)(r.data), r.mask+1)
	n := copy(to, data[off&r.mask:])
	copy(to[n:], data)
}

// CopyWords is Copy of n bytes, a multiple of 8, to memory aligned like records.
func (r *Ring) CopyWords(to []uint64, off, n uint64) {
	// Invariant: 8 bytes each.
	r.Copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(to))), 8*len(to))[:n], off)
}

// Payload8 reads 8 bytes at an offset in the payload of a sample from Parse. ok is false if the
// payload ends before.
func (r *Ring) Payload8(rec *Record, at int) (v uint64, ok bool) {
	if at < 0 || uint64(at)+8 > uint64(rec.Len) {
		return 0, false
	}
	if p := r.At(rec.Off) + r.rawSize + 4 + uint64(at); p+8 <= r.view.size {
		// Invariant: as just compared.
		return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(r.data, p))[:]), true
	}
	var b [8]byte
	r.Copy(b[:], rec.Off+r.rawSize+4+uint64(at))
	return binary.NativeEndian.Uint64(b[:]), true
}

// Head returns data_head: the free-running count of bytes that the kernel has published. Every
// record below it is complete. In a BPF ring buffer it is producer_pos: every record below it is
// reserved, and has a length.
//
// The load has acquire semantics. It pairs with the smp_wmb in perf_output_put_handle
// (kernel/events/ring_buffer.c), which orders the record's bytes before the store of data_head. It
// also pairs with the smp_store_release of producer_pos in __bpf_ringbuf_reserve
// (kernel/bpf/ringbuf.c), after that of the header.
//
// Records are multiples of 8 bytes, and so is the kernel's value. Any other value is rounded down,
// which keeps every header within the ring.
func (r *Ring) Head() uint64 { return atomic.LoadUint64(r.head) &^ 7 }

// Tail returns data_tail, or consumer_pos, as last published, rounded like Head.
func (r *Ring) Tail() uint64 { return atomic.LoadUint64(r.tail) &^ 7 }

// SetTail publishes data_tail: the kernel may overwrite every byte below t.
//
// The swap is a full barrier on amd64 and a release elsewhere, so no read of the freed bytes moves
// below it. It pairs with the control dependency on the load of data_tail in __perf_output_begin
// (kernel/events/ring_buffer.c), and with the smp_load_acquire of consumer_pos in
// __bpf_ringbuf_reserve. It also comes before all later atomic loads. The kernel and the reader of
// a BPF ring buffer each store, then load the other's store. So if Busy finds a record busy, its
// program finds this tail at commit, and wakes the reader.
//
// It is no atomic store, which has that order in Go, and the same price on amd64. The race detector
// makes it a plain one in memory that is not Go's, and then a wakeup may be missed.
func (r *Ring) SetTail(t uint64) {
	atomic.SwapUint64(r.tail, t)
	if r.gauge != nil {
		r.gauge.publish(r)
	}
}

// SetGauge makes SetTail publish the tail there, too, from now on. nil ends that.
func (r *Ring) SetGauge(g *Gauge) {
	if r.gauge = g; g != nil {
		g.publish(r)
	}
}
