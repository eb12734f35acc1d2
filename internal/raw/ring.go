// Package raw reads the memory of one perf ring buffer: a metadata page that holds data_head and
// data_tail, and a power-of-two number of data bytes that follow it. It makes no system call,
// starts no goroutine and allocates nothing per record, and it works on any 8-byte aligned memory:
// on a ring shared with the kernel and on plain Go memory alike.
//
// Trust: offsets come from the kernel, and so do all bytes, but a program that outputs more than 64
// KiB at once makes the kernel write nonsense into the ring (header.size is 16 bits wide and
// wraps). So no byte is believed: each header is checked before it is used, and nothing outside the
// ring is read.
package raw

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"
)

// Where struct perf_event_mmap_page (include/uapi/linux/perf_event.h) has the two words that ring
// and kernel share.
const (
	headOffset = 1024 // data_head
	tailOffset = 1032 // data_tail
	metaSize   = 1088 // up to aux_size, the last member
)

// Layout says which fields a record has, that is, which sample_type its perf event was opened with.
type Layout uint8

const (
	// LayoutRaw is PERF_SAMPLE_RAW: no record has a time.
	LayoutRaw Layout = iota
	// LayoutRawTime is PERF_SAMPLE_RAW | PERF_SAMPLE_TIME with sample_id_all: samples and losses have a time.
	LayoutRawTime
)

// Ring is the reading side of one perf ring buffer. It holds no position: that is its user's, who
// may keep one of its own ahead of the published tail.
type Ring struct {
	head, tail *uint64        // in the metadata page
	data       unsafe.Pointer // the first data byte
	mask       uint64         // data bytes - 1
	rawSize    uint64         // where in a sample the u32 raw_size is: 8, or 16 behind a time
	timed      uint64         // all ones if records have a time, else 0
}

// New describes a ring: meta points to its metadata page, data is all of its data bytes. Both must
// stay mapped, or reachable, for as long as the Ring is used. len(data) must be a power of two and
// at least 8.
func New(meta unsafe.Pointer, data []byte, layout Layout) (*Ring, error) {
	n := len(data)
	if n < 8 || n&(n-1) != 0 {
		return nil, fmt.Errorf("ring of %d data bytes: must be a power of two, at least 8", n)
	}
	base := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(meta)&7 != 0 || uintptr(base)&7 != 0 {
		return nil, fmt.Errorf("ring memory at %p and %p: must be aligned to 8 bytes", meta, base)
	}
	r := &Ring{
		// Invariant: the caller's metadata page is at least metaSize long.
		head:    (*uint64)(unsafe.Add(meta, headOffset)),
		tail:    (*uint64)(unsafe.Add(meta, tailOffset)),
		data:    base,
		mask:    uint64(n - 1),
		rawSize: 8,
	}
	if layout == LayoutRawTime {
		r.rawSize, r.timed = 16, math.MaxUint64
	}
	return r, nil
}

// Size returns the number of data bytes.
func (r *Ring) Size() uint64 { return r.mask + 1 }

// Base returns the first data byte: where a record that wraps goes on.
func (r *Ring) Base() unsafe.Pointer { return r.data }

// Head returns data_head: the free-running count of bytes that the kernel has published. Every
// record below it is fully written.
//
// The load has acquire semantics. It pairs with the smp_wmb in perf_output_put_handle
// (kernel/events/ring_buffer.c), which orders the record's bytes before the store of data_head.
//
// Records are multiples of 8 bytes, so the kernel's value is too; a value that is not is rounded
// down, which keeps every header within the ring.
func (r *Ring) Head() uint64 { return atomic.LoadUint64(r.head) &^ 7 }

// Tail returns data_tail as last published, rounded like Head.
func (r *Ring) Tail() uint64 { return atomic.LoadUint64(r.tail) &^ 7 }

// SetTail publishes data_tail: the kernel may overwrite every byte below t.
//
// The store is a full barrier on amd64 and a release elsewhere, so no read of the freed bytes moves
// below it. It pairs with the control dependency on the load of data_tail in __perf_output_begin
// (kernel/events/ring_buffer.c).
func (r *Ring) SetTail(t uint64) { atomic.StoreUint64(r.tail, t) }
