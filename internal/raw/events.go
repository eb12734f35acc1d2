package raw

import (
	"sync/atomic"
	"unsafe"
)

// Events fills into with consecutive samples from off on. The last begins before stop, which lies
// between off and head. It skips discarded records. It returns the number of samples, that of
// discarded records, and where it stopped: at the ring's edge, or before another record, a sample
// that goes past the view's end, or one too short for the fields. It is the hot path of all reading
// without order.
//
// Most records are like the one before. Then the next one's place does not depend on this one's
// header, and the processor reads several at once. Where they differ it would wait for memory at
// each, so ahead asks for it.
//
// Invariant: pos is a multiple of 8, below the ring's size, and below end, which is at most the
// view's, by the bytes that a sample's header and length take. So these lie in the view.
func (r *Ring) Events(off, stop, head uint64, into []Event) (n, discarded int, next uint64) {
	if head-off > r.mask+1 {
		return 0, 0, off
	}
	v, begin := &r.view, off&r.mask
	end, behind := min(begin+head-off, v.size), v.body&^7
	limit := min(begin+stop-off, r.mask+1, max(end, behind)-behind)
	alike := v.bits | v.sizes<<(v.shift&63)         // not a ring buffer's pg_off, another on each page
	var header, length, size uint64 = 0, 0, 1 << 63 // of the sample before; none is so large
	pos := begin
	for n < len(into) && pos < limit {
		h, l := v.header(pos)
		if (h^header)&alike != 0 || l != length || pos+size > end {
			var ok bool
			if size, ok = v.sample(h, l, end-pos); !ok {
				if size, ok = r.discarded(pos, end-pos); !ok {
					break
				}
				discarded++
				pos, size = pos+size, 1<<63
				continue
			}
			if header != 0 && pos+aheadEnd <= end {
				r.seen = ahead(unsafe.Add(v.base, pos))
			}
			header, length = h, l
		}
		if into[n].View != v {
			into[n].View = v // rarely: the garbage collector hears of each
		}
		into[n].word = pos | l<<32
		n++
		pos += size
	}
	return n, discarded, off + pos - begin
}

// ahead reads a word of each of four cache lines some way behind a record, for them to be in the
// cache when reading comes there. aheadEnd is where that ends. The caller stores the result, or the
// compiler would drop the loads. Invariant: the view has these bytes.
func ahead(record unsafe.Pointer) uint64 {
	at := unsafe.Add(record, aheadEnd-256)
	return *(*uint64)(at) + *(*uint64)(unsafe.Add(at, 64)) + *(*uint64)(unsafe.Add(at, 128)) + *(*uint64)(unsafe.Add(at, 192))
}

const aheadEnd = 576

// header returns the first 8 bytes of the record at pos, and its payload's length if it is a
// sample. The acquire is as in ringBufHeaderAt, where the same word holds the length.
func (v *View) header(pos uint64) (h, n uint64) {
	return atomic.LoadUint64((*uint64)(unsafe.Add(v.base, pos))), uint64(atomic.LoadUint32((*uint32)(unsafe.Add(v.base, pos+v.length))))
}

// sample returns a record's size, and whether it is a sample: type, size, alignment, and bounds in
// what is left. ok is false if Parse would not find one, or it is too short for the view's fields.
func (v *View) sample(h, n, left uint64) (size uint64, ok bool) {
	size = (h>>(v.shift&63) + v.round) & v.sizes
	// In this signed comparison, a size below the fixed part's has no room for any payload.
	return size, h&v.bits == v.want && int64((n-v.least)|(size-v.body-4-n)|(left-size)) >= 0
}

// discarded returns the size of a discarded record at off, which must not exceed what is left.
func (r *Ring) discarded(off, left uint64) (size uint64, ok bool) {
	if r.layout != LayoutRingBuf {
		return 0, false
	}
	h := r.ringBufHeaderAt(off)
	size, _ = ringBufSize(h)
	return size, h&(ringBufBusy|ringBufDiscarded) == ringBufDiscarded && size <= left
}

// Find looks again at a sample that was found before at pos of the view. It returns its Event and
// size. ok is false if it is gone, goes past the view's end, or is too short for its fields.
func (v *View) Find(pos uint64) (ev Event, size uint64, ok bool) {
	if pos+v.body&^7+8 > v.size {
		return Event{}, 0, false
	}
	h, n := v.header(pos)
	size, ok = v.sample(h, n, v.size-pos)
	return Event{v, pos | n<<32}, size, ok
}
