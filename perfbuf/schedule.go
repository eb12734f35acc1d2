package perfbuf

import (
	"cmp"
	"slices"

	"github.com/ringfold/ringfold/internal/stream"
)

// Schedule sorts loads, which come by CPU number, into the order in which a pass over a [Reader]
// reads their rings. It must only move them, and not keep the slice. A pass calls it in its own
// goroutine. Passes over several readers that share a Schedule may call it at the same time.
//
// A pass looks at all rings, asks for the order, and reads from each in turn, an eighth of the
// smallest ring or 32 KiB at most. When the rings may have filled up differently meanwhile, it
// looks again. It ends when it has read all that was there at its beginning. It also reads newer
// events of rings that are more than half full, but at most as much again: so no fast producer
// holds a pass up forever, and no ring starves, in any order. The first event after a pause comes
// before all of this, with up to 32 KiB of its ring.
type Schedule func(loads []Load)

// Load says how full a ring is.
type Load struct {
	CPU   int
	Size  int // data bytes
	Used  int // bytes that the ring holds
	Grown int // bytes that have come since the previous look, over the same time for all rings

	ring *stream.Ring
}

// FullestFirst is the default [Schedule]: the ring with the largest share in use comes first.
func FullestFirst(loads []Load) {
	slices.SortStableFunc(loads, func(a, b Load) int {
		// Shares, compared without dividing. A ring has at most 2 GiB.
		return cmp.Compare(int64(b.Used)*int64(a.Size), int64(a.Used)*int64(b.Size))
	})
}
