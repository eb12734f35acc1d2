package raw

import "unsafe"

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
	seen := uint64(0)
	for off != head {
		// Invariant: as in Parse, 8 bytes at off, off+8 and off+16, masked, lie within the ring and
		// are aligned.
		hdr := (*header)(unsafe.Add(r.data, off&r.mask))
		size := uint64(hdr.size)
		if hdr.typ != typeSample || size < 24 || size&7 != 0 || size > head-off {
			break
		}
		n := *(*uint32)(unsafe.Add(r.data, (off+16)&r.mask))
		time := *(*uint64)(unsafe.Add(r.data, (off+8)&r.mask))
		if uint64(n) > size-20 || time < floor || time > ceiling {
			break
		}
		marks = append(marks, Mark{time, off})
		floor = time
		// Each record's place depends on the one before, so the processor waits for memory at each.
		// Look ahead, as if all were as large. Invariant: the 8 bytes before head are published;
		// masked, they are aligned.
		seen += *(*uint64)(unsafe.Add(r.data, min(off+prefetched*size, head-8)&r.mask))
		off += size
	}
	r.seen = seen // keeps the compiler from dropping the loads
	return marks, off
}

const prefetched = 16 // records ahead

// Touch reads from an offset, a multiple of 8, to bring that record into the cache for Parse.
func (r *Ring) Touch(off uint64) uint32 {
	return *(*uint32)(unsafe.Add(r.data, off&r.mask)) // invariant: as in Parse
}
