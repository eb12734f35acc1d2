package raw

import (
	"sync/atomic"
	"unsafe"
)

// Mark is a record's time and offset.
type Mark struct{ Time, Off uint64 }

// Samples walks from off towards head, which was loaded before, and appends each sample to marks.
// It stops in front of a record that Parse would not return as a sample, or whose time is below the
// previous one (or floor, for the first) or above ceiling. It returns where it stopped. off is a
// multiple of 8.
//
// The times are those of records, or of payloads in a BPF ring buffer. In other rings it finds
// nothing.
//
// It is a fast path of Parse for times only: a loop without calls, as most records are samples in
// order.
func (r *Ring) Samples(off, head, floor, ceiling uint64, marks []Mark) ([]Mark, uint64) {
	if head-off > r.mask+1 || r.rawSize != 16 || r.timeAt >= 0 {
		if r.layout == LayoutRingBuf {
			return r.samplesRingBuf(off, head, floor, ceiling, marks)
		}
		return marks, off
	}
	// Of the sample before, which most are like: see Events.
	var before, size uint64 = 0, 1 << 63
	var length uint32
	for off != head {
		// Invariant: as in Parse, 8 bytes at off, off+8 and off+16, masked, lie within the ring and
		// are aligned.
		at := unsafe.Add(r.data, off&r.mask)
		h, n := *(*uint64)(at), *(*uint32)(unsafe.Add(r.data, (off+16)&r.mask))
		if h != before || n != length || size > head-off {
			hdr := (*header)(at)
			size = uint64(hdr.size)
			if hdr.typ != typeSample || size < 24 || size&7 != 0 || size > head-off || uint64(n) > size-20 {
				break
			}
			if before != 0 && aheadEnd <= min(head-off, r.Size()-off&r.mask) {
				r.seen = ahead(at)
			}
			before, length = h, n
		}
		time := *(*uint64)(unsafe.Add(r.data, (off+8)&r.mask))
		if time < floor || time > ceiling {
			break
		}
		marks = append(marks, Mark{time, off})
		floor = time
		off += size
	}
	return marks, off
}

// Touch reads from an offset, a multiple of 8, to bring that record into the cache for Parse. A
// program may be writing there.
func (r *Ring) Touch(off uint64) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(r.data, off&r.mask))) // invariant: as in Parse
}
