package raw

import "unsafe"

// Mark is a record's place in its ring and in time.
type Mark struct{ Time, Off uint64 }

// Samples walks from off towards head, which was loaded before, and appends to marks every sample it
// comes to. It stops in front of the first record that is not a sample as Parse would find one,
// whose time is below that of the one before (or floor, for the first), or above ceiling. It returns
// where it stopped. off is a multiple of 8, and the ring's records have times.
//
// It is Parse for those who only want times: a loop without calls, as most records are of this kind.
func (r *Ring) Samples(off, head, floor, ceiling uint64, marks []Mark) ([]Mark, uint64) {
	if head-off > r.mask+1 || r.rawSize != 16 {
		return marks, off
	}
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
		off += size
	}
	return marks, off
}

// Batch walks from off towards stop, and parses each sample it comes to into the next of recs: Data,
// First, Len and Time as Parse would; Kind is Sample already, as NewBatch has made it, and Off and Size
// are left alone. It ends in front of the first record that is not a sample as Parse would find one, or
// that wraps, at the ring's edge, at stop or behind it, or with recs full, and returns how many it has
// parsed and where it ended. off and head are as for Parse, and stop is between them.
//
// A loop without calls takes a fraction of the time that as many Parses do: the loads of one record do
// not wait for what is done with the one before. Every instruction in it tells.
func (r *Ring) Batch(off, stop, head uint64, recs []Record) (n int, end uint64) {
	at, timed, data, pos := r.rawSize, r.timed, r.data, off&r.mask
	left, wanted := head-off, stop-off
	if left > r.mask+1 || wanted > left {
		return 0, off
	}
	left = min(left, r.mask+1-pos) // up to the ring's edge
	end = off
	for n < len(recs) && int64(wanted) > 0 && left >= 24 {
		// Invariant: pos is a multiple of 8, and left bytes from it are within the ring.
		hdr := (*header)(unsafe.Add(data, pos))
		size := uint64(hdr.size)
		length := uint64(*(*uint32)(unsafe.Add(data, pos+at)))
		if hdr.typ != typeSample || size&7 != 0 || size > left || int64(size-at-4) < int64(length) {
			break
		}
		rec := &recs[n]
		// Invariant: length bytes from here are inside the size bytes from pos, and those within the ring.
		rec.Data = unsafe.Add(data, pos+at+4)
		rec.First, rec.Len = uint32(length), uint32(length)
		rec.Time = *(*uint64)(unsafe.Add(data, pos+8)) & timed
		pos += size
		end, left, wanted = end+size, left-size, wanted-size
		n++
	}
	return n, end
}

// NewBatch makes the records for Batch.
func NewBatch(n int) []Record {
	recs := make([]Record, n)
	for i := range recs {
		recs[i].Kind = Sample
	}
	return recs
}

// NewCopy makes a Ring of bytes that were copied out of one with this layout, to Parse them. Offsets
// count from the first byte. It has no head and no tail.
func NewCopy(data []byte, layout Layout) (*Ring, error) {
	return New(unsafe.Pointer(&noCounters), data, layout)
}

// noCounters stands in for the metadata page where there is none.
var noCounters [metaSize / 8]uint64

// Layout is how the ring's records are laid out.
func (r *Ring) Layout() Layout {
	if r.rawSize == 16 {
		return LayoutRawTime
	}
	return LayoutRaw
}

// Touch reads what is at an offset, a multiple of 8, so that it is in the cache when Parse comes to it.
func (r *Ring) Touch(off uint64) uint32 {
	return *(*uint32)(unsafe.Add(r.data, off&r.mask)) // invariant: as in Parse
}

// Copy copies the len(to) bytes from offset off on, which is at most the ring's size.
func (r *Ring) Copy(to []byte, off uint64) {
	// Invariant: the ring's memory is mask+1 bytes at data.
	data := unsafe.Slice((*byte)(r.data), r.mask+1)
	n := copy(to, data[off&r.mask:])
	copy(to[n:], data)
}
