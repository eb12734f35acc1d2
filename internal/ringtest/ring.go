// Package ringtest is the kernel's side of perf event arrays, on Go memory: it writes records by
// the rules of kernel/events/ring_buffer.c, so that readers can be tested without a kernel. A Ring
// is one ring and its writer; a Kernel is CPUs that run programs, with a clock, a map and RCU.
package ringtest

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
)

// Record types, of include/uapi/linux/perf_event.h.
const (
	TypeLost     = 2
	TypeThrottle = 5
	TypeSample   = 9
)

const pageSize = 4096

// Ring is a ring and the CPU that writes it. One goroutine may write while another reads.
type Ring struct {
	meta   []uint64
	data   []byte
	layout raw.Layout

	// Of struct perf_buffer.
	head      uint64 // end of the reservations; the outermost writer publishes it
	nest      int    // outputs under way: an interrupt's comes within the one it interrupts
	lost      uint64 // outputs that failed since the last that succeeded
	wakeup    uint64 // changes when readers are to be woken
	watermark uint64
	events    int // since the last wakeup

	wakeupEvents int           // perf_event_attr.wakeup_events, 0 if watermark is set
	total        atomic.Uint64 // outputs that ever failed for want of room, perf_event.lost_samples
	poisoned     uint64        // see Poison

	// Defer makes outputs leave publishing to Publish: they interrupt one that has not come to it.
	Defer bool
}

// New makes an empty ring of size data bytes whose counters start at start, a multiple of 8. The
// data is filled with garbage. Every output wakes readers.
func New(size int, layout raw.Layout, start uint64) *Ring {
	words := make([]uint64, size/8)
	r := &Ring{
		meta:     make([]uint64, pageSize/8),
		data:     unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size),
		layout:   layout,
		head:     start,
		wakeup:   start,
		poisoned: start,
	}
	for i := range r.data {
		r.data[i] = 0xA5
	}
	r.SetWakeup(1, 0)
	r.SetTail(start)
	r.Publish()
	return r
}

// Raw is the reading side.
func (r *Ring) Raw() *raw.Ring {
	ring, err := raw.New(unsafe.Pointer(unsafe.SliceData(r.meta)), r.data, r.layout)
	if err != nil {
		panic(err)
	}
	return ring
}

// Tail is data_tail, as the reader published it.
func (r *Ring) Tail() uint64 { return atomic.LoadUint64(&r.meta[raw.TailWord]) }

// SetTail moves data_tail, as only a reader does.
func (r *Ring) SetTail(t uint64) { atomic.StoreUint64(&r.meta[raw.TailWord], t) }

// Head is how far the ring is written, or reserved.
func (r *Ring) Head() uint64 { return r.head }

// SetHead moves the writer, as no kernel does.
func (r *Ring) SetHead(h uint64) { r.head = h }

// Publish stores data_head, as the outermost writer does in perf_output_put_handle.
func (r *Ring) Publish() { atomic.StoreUint64(&r.meta[raw.HeadWord], r.head) }

// Data is the data bytes, to do damage to.
func (r *Ring) Data() []byte { return r.data }

// Pending is how many failed outputs no record has reported yet.
func (r *Ring) Pending() uint64 { return r.lost }

// Lost is how many outputs have failed for want of room, ever: what PERF_FORMAT_LOST counts. It may
// be called at any time.
func (r *Ring) Lost() uint64 { return r.total.Load() }

// Put writes a record of any type, even into a full ring: a header of 8 bytes, then body.
func (r *Ring) Put(typ uint32, body []byte) {
	rec := append(make([]byte, 8), body...)
	r.place(typ, uint16(len(rec)), rec)
	r.advance(uint64(len(rec)))
}

// PutHeader writes a header that claims size bytes, and moves the head by advance bytes: damage.
func (r *Ring) PutHeader(typ uint32, size uint16, advance uint64) {
	r.place(typ, size, make([]byte, 8))
	r.advance(advance)
}

// place fills in the header and copies a record to the head.
func (r *Ring) place(typ uint32, size uint16, rec []byte) {
	binary.NativeEndian.PutUint32(rec, typ)
	binary.NativeEndian.PutUint16(rec[6:], size)
	r.copyTo(r.head, rec)
}

func (r *Ring) advance(n uint64) {
	r.head += n
	if !r.Defer && r.nest == 0 {
		r.Publish()
	}
}

// copyTo copies b into the ring, around its edge as often as need be, and returns where it ends.
func (r *Ring) copyTo(off uint64, b []byte) uint64 {
	for len(b) > 0 {
		n := copy(r.data[off&uint64(len(r.data)-1):], b)
		b = b[n:]
		off += uint64(n)
	}
	return off
}

// Poison fills the bytes that the reader has given back since the last call with 0xDD, which
// exposes later reads of them. Only the writer's goroutine may call it.
func (r *Ring) Poison() {
	size := uint64(len(r.data))
	tail := r.Tail()
	if r.head-r.poisoned > size {
		r.poisoned = r.head - size // reserved anew
	}
	for ; int64(tail-r.poisoned) > 0; r.poisoned++ { // counters wrap
		r.data[r.poisoned&(size-1)] = 0xDD
	}
}

// Parse returns one record by value, for tests.
func Parse(r *raw.Ring, off, head uint64) (rec raw.Record) {
	r.Parse(off, head, &rec)
	return rec
}
