// Package ringtest is the kernel's side of a perf ring buffer, on Go memory: it writes records by
// the rules of kernel/events/ring_buffer.c, so that readers can be tested without a kernel.
package ringtest

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
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

	head uint64 // rb->head: what is written, published by Publish
	lost uint64 // outputs that failed since the last that succeeded
	buf  []byte // scratch of Output, which does not allocate

	// Defer makes Output leave publishing to Publish, as in an interrupted writer.
	Defer bool
}

// New makes an empty ring of size data bytes whose counters start at start, a multiple of 8. The
// data is filled with garbage.
func New(size int, layout raw.Layout, start uint64) *Ring {
	words := make([]uint64, size/8)
	r := &Ring{
		meta:   make([]uint64, pageSize/8),
		data:   unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size),
		layout: layout,
		head:   start,
	}
	for i := range r.data {
		r.data[i] = 0xA5
	}
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
func (r *Ring) Tail() uint64 { return atomic.LoadUint64(&r.meta[1032/8]) }

// SetTail moves data_tail, as only a reader does.
func (r *Ring) SetTail(t uint64) { atomic.StoreUint64(&r.meta[1032/8], t) }

// Head is how far the ring is written.
func (r *Ring) Head() uint64 { return r.head }

// SetHead moves the writer, as no kernel does.
func (r *Ring) SetHead(h uint64) { r.head = h }

// Publish stores data_head, as the outermost writer does in perf_output_put_handle.
func (r *Ring) Publish() { atomic.StoreUint64(&r.meta[1024/8], r.head) }

// Data is the data bytes, to do damage to.
func (r *Ring) Data() []byte { return r.data }

// Pending is how many outputs failed that no record has reported yet.
func (r *Ring) Pending() uint64 { return r.lost }

// Output writes a sample as bpf_perf_event_output does, behind a LOST record if outputs failed
// before. It returns syscall.ENOSPC, and counts a loss, if the ring is too full. time is ignored if
// the layout has none.
func (r *Ring) Output(time uint64, payload []byte) error {
	rawSize := (len(payload)+4+7)&^7 - 4
	sample := append(r.buf[:0], 0, 0, 0, 0, 0, 0, 0, 0)
	if r.layout == raw.LayoutRawTime {
		sample = binary.NativeEndian.AppendUint64(sample, time)
	}
	sample = binary.NativeEndian.AppendUint32(sample, uint32(rawSize))
	sample = append(sample, payload...)
	for len(sample)&7 != 0 {
		sample = append(sample, 0x5A) // the kernel leaves stale bytes
	}
	r.buf = sample
	var lost []byte
	if r.lost > 0 {
		lost = make([]byte, 16)
		lost = binary.NativeEndian.AppendUint64(lost, r.lost)
		if r.layout == raw.LayoutRawTime {
			lost = binary.NativeEndian.AppendUint64(lost, time)
		}
	}
	// CIRC_SPACE in __perf_output_begin: at least one byte stays free.
	if room := uint64(len(r.data)) - 1 - (r.head - r.Tail()); room < uint64(len(lost)+len(sample)) {
		r.lost++
		return syscall.ENOSPC
	}
	if lost != nil { // in the same reservation: both are published together
		r.copyIn(TypeLost, lost)
		r.lost = 0
	}
	r.write(TypeSample, sample)
	return nil
}

// Put writes a record of any type, whatever the room: 8 bytes for the header come before body.
func (r *Ring) Put(typ uint32, body []byte) {
	r.write(typ, append(make([]byte, 8), body...))
}

// PutHeader writes a header that claims size bytes, and moves the head by advance bytes: damage.
func (r *Ring) PutHeader(typ uint32, size uint16, advance uint64) {
	r.place(typ, size, make([]byte, 8))
	r.head += advance
	if !r.Defer {
		r.Publish()
	}
}

// write copies a record in and publishes it.
func (r *Ring) write(typ uint32, rec []byte) {
	r.copyIn(typ, rec)
	if !r.Defer {
		r.Publish()
	}
}

func (r *Ring) copyIn(typ uint32, rec []byte) {
	r.place(typ, uint16(len(rec)), rec)
	r.head += uint64(len(rec))
}

// place fills in the header and copies a record to the head, around the ring's edge if need be.
func (r *Ring) place(typ uint32, size uint16, rec []byte) {
	binary.NativeEndian.PutUint32(rec, typ)
	binary.NativeEndian.PutUint16(rec[6:], size)
	at := r.head & uint64(len(r.data)-1)
	n := copy(r.data[at:], rec)
	copy(r.data, rec[n:])
}

// Parse returns one record by value, for tests.
func Parse(r *raw.Ring, off, head uint64) (rec raw.Record) {
	r.Parse(off, head, &rec)
	return rec
}
