package raw

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"
)

// The header of a BPF ring buffer's record is two u32: the length with two flags, and the distance
// to the map's struct in pages, for the kernel's own use (struct bpf_ringbuf_hdr,
// kernel/bpf/ringbuf.c).
const (
	ringBufHeader    = 8       // BPF_RINGBUF_HDR_SZ
	ringBufBusy      = 1 << 31 // BPF_RINGBUF_BUSY_BIT
	ringBufDiscarded = 1 << 30 // BPF_RINGBUF_DISCARD_BIT
	ringBufLength    = ringBufDiscarded - 1
)

// maxRingBuf is the largest ring: max_entries is a u32. A position in its view has 32 bits, as a
// record begins in the first of the two mappings.
const maxRingBuf = 1 << 31

// NewRingBuf describes a BPF ring buffer (BPF_MAP_TYPE_RINGBUF). consumer and producer point to its
// position words. data is its data bytes, mapped twice in a row as the kernel does it: len(data) is
// twice the size. All must stay mapped, or reachable, as long as the Ring is used. If the map has
// the flag BPF_F_RB_OVERWRITE, programs overwrite records: see SetOverwritten.
//
// Each record is contiguous. A record that is not committed yet is Busy.
func NewRingBuf(consumer, producer *uint64, data []byte) (*Ring, error) {
	n := uint64(len(data)) / 2
	if n < 64 || n&(n-1) != 0 || n > maxRingBuf || len(data)%2 != 0 {
		return nil, fmt.Errorf("ring buffer of 2 times %d data bytes: must be a power of two, 64 to %d", n, uint64(maxRingBuf))
	}
	base := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(unsafe.Pointer(consumer))&7 != 0 || uintptr(unsafe.Pointer(producer))&7 != 0 || uintptr(base)&7 != 0 {
		return nil, fmt.Errorf("ring buffer memory at %p, %p and %p: must be aligned to 8 bytes", consumer, producer, base)
	}
	r := newRing(producer, consumer, base, n, 2*n, LayoutRingBuf)
	r.SetCPU(-1)
	return r, nil
}

// ringBufSize returns the size of a record with this header, and the length of its payload.
func ringBufSize(header uint32) (size, n uint64) {
	n = uint64(header & ringBufLength)
	return ringBufHeader + (n+7)&^7, n
}

// ringBufHeaderAt loads a record's header. The acquire pairs with the xchg in bpf_ringbuf_commit
// (kernel/bpf/ringbuf.c): the program has written the payload before that.
func (r *Ring) ringBufHeaderAt(off uint64) uint32 {
	// Invariant: off and the size are multiples of 8, so the ring has 8 bytes at off, masked.
	return atomic.LoadUint32((*uint32)(unsafe.Add(r.data, off&r.mask)))
}

// parseRingBuf is Parse. A busy record has its final length since the store of producer_pos.
func (r *Ring) parseRingBuf(off, head uint64, rec *Record) {
	left := head - off
	h := r.ringBufHeaderAt(off)
	size, n := ringBufSize(h)
	rec.Off, rec.Size, rec.Time, rec.Len = off, size, 0, 0
	switch {
	case left > r.mask+1:
		rec.corrupt(FaultHead, left)
	case size > left:
		rec.corrupt(FaultBeyondHead, left)
	case h&ringBufBusy != 0:
		rec.Kind = Busy
	case h&ringBufDiscarded != 0:
		rec.Kind = Discarded
	default:
		rec.Kind, rec.Len = Sample, uint32(n)
	}
}

// Busy reports whether the record at this offset, at most head, is not committed yet. Until it is,
// nothing behind it can be freed. If the tail is here when the program commits it, the kernel wakes
// readers.
func (r *Ring) Busy(off, head uint64) bool {
	return r.layout == LayoutRingBuf && off != head && r.ringBufHeaderAt(off)&ringBufBusy != 0
}

// Offset returns the offset of an event in View, which is less than the ring's size after off.
func (r *Ring) Offset(ev Event, off uint64) uint64 { return off + (ev.word&posBits-off)&r.mask }

// samplesRingBuf is Samples.
func (r *Ring) samplesRingBuf(off, head, floor, ceiling uint64, marks []Mark) ([]Mark, uint64) {
	if head-off > r.mask+1 || r.timeAt < 0 || r.timeAt > math.MaxInt-8 {
		return marks, off
	}
	for off != head {
		h, pos := r.ringBufHeaderAt(off), off&r.mask
		size, n := ringBufSize(h)
		if h > ringBufLength || size > head-off || n < uint64(r.timeAt)+8 {
			break
		}
		// Invariant: as just compared, 8 bytes lie there, in the payload.
		time := binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(r.data, pos+ringBufHeader+uint64(r.timeAt)))[:])
		if time < floor || time > ceiling {
			break
		}
		marks = append(marks, Mark{time, off})
		floor = time
		off += size
	}
	return marks, off
}
