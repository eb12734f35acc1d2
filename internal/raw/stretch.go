package raw

import (
	"sync/atomic"
	"unsafe"
)

// Stretch is a part of a view in which samples may lie in a row. A loop over it is the hot path of all reading:
//
//	for s.Pos < s.Limit {
//		word, next, ok := s.View.Sample(s.Pos, s.End)
//		if !ok {
//			break // Parse says what is there
//		}
//		kept = s.Prefetch(next)
//		s.Pos = next
//		use(Event{s.View, word})
//	}
//
// Invariant: Pos, Limit and End are multiples of 8, End is in the view or its end, and Limit is below End by as much as a sample's header
// and the word with its length take beyond 8 bytes. So while Pos is below Limit, these are the view's.
type Stretch struct {
	View  *View
	Pos   uint64 // of the next record
	Limit uint64 // no record of the stretch begins here or behind
	End   uint64 // no record goes past this
}

// Stretch is where samples may lie in a row from off on, up to stop, to head and to the ring's edge. stop lies
// between off and head. It is empty if head cannot be believed.
func (r *Ring) Stretch(off, stop, head uint64) Stretch {
	if head-off > r.mask+1 {
		return Stretch{View: &r.view}
	}
	pos, left := off&r.mask, head-off
	end := min(pos+left, r.view.size)
	behind := r.view.body &^ 7
	return Stretch{View: &r.view, Pos: pos, Limit: min(pos+stop-off, r.mask+1, max(end, behind)-behind), End: end}
}

// Methods take a Stretch by value: a loop then has it in registers. With its address taken it lives in memory, and
// the way from each record to the next goes through a store and a load.

// Sample checks the record at pos, which is below a Stretch's Limit and its End: type, size, alignment and bounds, all at once. It
// returns the Word of its Event and where the record ends. ok is false if it is not a sample as Parse
// would find one, or is too short for the view's fields.
func (v *View) Sample(pos, end uint64) (word, next uint64, ok bool) {
	// Invariant of Stretch. The acquire is as in ringBufHeaderAt; the length there is in the same word, so it is atomic too.
	h := atomic.LoadUint64((*uint64)(unsafe.Add(v.base, pos)))
	n := uint64(atomic.LoadUint32((*uint32)(unsafe.Add(v.base, pos+v.length))))
	next = pos + (h>>(v.shift&63)+v.round)&v.sizes
	// Compared as signed numbers, a size below that of the fixed part is not enough for any payload.
	return pos | n<<32, next, h&v.bits == v.want && int64((n-v.least)|(next-pos-v.body-4-n)|(end-next)) >= 0
}

// Prefetch reads a word where a record begins that is some records ahead, if all are as large as the one at Pos,
// which ends at next. Where a record begins is known only from the one before, so otherwise the processor waits for
// the memory of one after the other. Of small ones it has the next in the cache already. The caller stores the word
// somewhere, or the compiler would leave the load out.
func (s Stretch) Prefetch(next uint64) uint64 {
	if next-s.Pos < cacheLine {
		return 0
	}
	// Invariant of Stretch: while Pos is below Limit, End is 8 at least, and the 8 bytes before it are the view's.
	return *(*uint64)(unsafe.Add(s.View.base, min(s.Pos+prefetched*(next-s.Pos), s.End-8)))
}

const (
	prefetched = 16 // records ahead
	cacheLine  = 64
)

// Find looks once more at a sample that was found before at pos of the view. It returns its Event and size.
// ok is false if it is gone, goes past the view's end, or is too short for its fields.
func (v *View) Find(pos uint64) (ev Event, size uint64, ok bool) {
	if pos+v.body&^7+8 > v.size {
		return Event{}, 0, false
	}
	word, next, ok := v.Sample(pos, v.size)
	return Event{v, word}, next - pos, ok
}
