package raw

import "unsafe"

// Mark is a record's place in its ring and in time.
type Mark struct{ Time, Off uint64 }

// Samples walks from off towards head, which was loaded before, and appends to marks every sample it
// comes to. It stops in front of the first record that is not a sample as Parse would find one,
// whose time is below that of the one before (or floor, for the first), or above ceiling. It returns
// where it stopped. off is a multiple of 8.
//
// The times are those of records, or of payloads in a BPF ring buffer. In other rings it finds nothing.
//
// It is Parse for those who only want times: a loop without calls, as most records are of this kind.
func (r *Ring) Samples(off, head, floor, ceiling uint64, marks []Mark) ([]Mark, uint64) {
	if head-off > r.mask+1 || r.rawSize != 16 || r.timeAt >= 0 {
		if r.layout == LayoutRingBuf {
			return r.samplesRingBuf(off, head, floor, ceiling, marks)
		}
		return marks, off
	}
	seen := uint64(0)
	for off != head {
		// Invariant: as in Parse, 8 bytes at off, off+8 and off+16, masked, lie within the ring and are
		// aligned.
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
		// As Stretch.Prefetch does. Invariant: the 8 bytes before head are published, and masked, 8 bytes are aligned.
		seen += *(*uint64)(unsafe.Add(r.data, min(off+prefetched*size, head-8)&r.mask))
		off += size
	}
	r.seen = seen // or the compiler would leave the loads out
	return marks, off
}

// Touch reads what is at an offset, a multiple of 8, so that it is in the cache when Parse comes to it.
func (r *Ring) Touch(off uint64) uint32 {
	return *(*uint32)(unsafe.Add(r.data, off&r.mask)) // invariant: as in Parse
}
