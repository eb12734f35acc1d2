package raw

import (
	"sync/atomic"
	"unsafe"
)

// Stretch is a part of a view that may have consecutive samples. A loop over it is the hot path of
// all reading:
//
//	for s.Pos < s.Limit {
//		word, next, ok := s.View.Sample(s.Pos, s.End)
//		if !ok {
//			break // see Parse
//		}
//		kept = s.Prefetch(next)
//		s.Pos = next
//		use(Event{s.View, word})
//	}
//
// Invariant: Pos, Limit and End are multiples of 8, and End is at most the view's end. Limit is
// below End by the bytes that a sample's header and length word take beyond 8. So while Pos is
// below Limit, these lie in the view.
type Stretch struct {
	View  *View
	Pos   uint64 // of the next record
	Limit uint64 // no record of the stretch begins at or after this
	End   uint64 // no record goes past this
}

// Stretch returns the bytes from off on that may have consecutive samples, up to stop, head and the
// ring's edge. stop lies between off and head. It is empty for an impossible head.
func (r *Ring) Stretch(off, stop, head uint64) Stretch {
	if head-off > r.mask+1 {
		return Stretch{View: &r.view}
	}
	pos, left := off&r.mask, head-off
	end := min(pos+left, r.view.size)
	behind := r.view.body &^ 7
	return Stretch{View: &r.view, Pos: pos, Limit: min(pos+stop-off, r.mask+1, max(end, behind)-behind), End: end}
}

// Methods take a Stretch by value, so that loops keep it in registers. With its address taken it
// lives in memory, and each step goes through a store and a load.

// Sample checks the record at pos, below a Stretch's Limit and End: type, size, alignment and
// bounds at once. It returns its Event's Word and the record's end. ok is false if Parse would not
// find a sample, or it is too short for the view's fields.
func (v *View) Sample(pos, end uint64) (word, next uint64, ok bool) {
	// Invariant of Stretch. The acquire is as in ringBufHeaderAt; there, the same word holds the
	// length, so load that atomically too.
	h := atomic.LoadUint64((*uint64)(unsafe.Add(v.base, pos)))
	n := uint64(atomic.LoadUint32((*uint32)(unsafe.Add(v.base, pos+v.length))))
	next = pos + (h>>(v.shift&63)+v.round)&v.sizes
	// In this signed comparison, a size below the fixed part's has no room for any payload.
	return pos | n<<32, next, h&v.bits == v.want && int64((n-v.least)|(next-pos-v.body-4-n)|(end-next)) >= 0
}

// Prefetch reads a word some records ahead, assuming that all are as large as the one at Pos, which
// ends at next. Each record's start depends on the one before, so without it the processor waits
// for memory at each. Small records need no prefetch: the next is in the cache already. The caller
// stores the word somewhere, or the compiler would drop the load.
func (s Stretch) Prefetch(next uint64) uint64 {
	if next-s.Pos < cacheLine {
		return 0
	}
	// Invariant of Stretch: while Pos is below Limit, the view has the 8 bytes before End.
	return *(*uint64)(unsafe.Add(s.View.base, min(s.Pos+prefetched*(next-s.Pos), s.End-8)))
}

const (
	prefetched = 16 // records ahead
	cacheLine  = 64
)

// Find looks again at a sample that was found before at pos of the view. It returns its Event and
// size. ok is false if it is gone, goes past the view's end, or is too short for its fields.
func (v *View) Find(pos uint64) (ev Event, size uint64, ok bool) {
	if pos+v.body&^7+8 > v.size {
		return Event{}, 0, false
	}
	word, next, ok := v.Sample(pos, v.size)
	return Event{v, word}, next - pos, ok
}
