package perfbuf

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/raw"
)

// Ring is the ring of one CPU, got from [Reader.Rings]. Rings may be read concurrently with each
// other, one goroutine each; two reads of one ring at the same time are refused with [ErrBusy].
type Ring struct {
	reader *Reader
	cpu    int
	index  int // among the reader's rings
	raw    *raw.Ring
	owner  atomic.Uint32 // who reads: one of idle, folding, ordering
	unset  bool          // its entry in the map could not be set; for whoever follows CPUs

	// For a pass over all rings.
	target uint64 // head at its beginning
	looked uint64 // head at its latest look

	// For the owner only.
	pass      pass // over this ring alone
	walk      ringWalk
	last      uint64 // time of the latest sample read, unordered
	lossAfter uint64 // no loss of the latest report is from before this time, unordered

	// Of ordered streams, and of what they leave behind.
	suspect bool   // it was nearly full, and has not been asked about since
	advance uint64 // losses delivered that no record has reported yet: the record that does is cut by them

	counts ringCounts
}

// losses is what is known of its losses when a stream begins.
func (r *Ring) losses() order.Losses {
	return order.Losses{Known: r.counts.lost.Load(), Advance: r.advance, Suspect: r.suspect}
}

const (
	idle uint32 = iota
	folding
	ordering
)

func newRing(r *raw.Ring) *Ring {
	return &Ring{cpu: r.CPU(), raw: r}
}

// adopt makes it a reader's i-th ring.
func (r *Ring) adopt(reader *Reader, i int) {
	r.reader, r.index = reader, i
	r.walk.pass, r.walk.reader, r.walk.only = &r.pass, reader, r
	r.pass.halt, r.pass.walk = &reader.closed, &r.walk
}

// CPU is the number of the ring's CPU.
func (r *Ring) CPU() int { return r.cpu }

// Size is the number of the ring's data bytes.
func (r *Ring) Size() int { return int(r.raw.Size()) }

// Used returns how many bytes the ring holds that have not been given back to the kernel, 0 after
// Close. It never blocks and is safe to call at any time.
func (r *Ring) Used() int {
	if r.reader.enter() != nil {
		return 0
	}
	defer r.reader.leaveAtOnce()
	return int(r.used())
}

// used is how many bytes lie between tail and head, both of which may move meanwhile: a tail that
// has passed the head it is compared with would make an empty ring look full. It is never more than
// the ring's size, whatever is in the memory shared with the kernel, and 0 for a head that went back,
// which no pass reads up to.
func (r *Ring) used() uint64 {
	for {
		tail := r.raw.Tail()
		head := r.raw.Head()
		if r.raw.Tail() == tail {
			return min(uint64(max(int64(head-tail), 0)), r.raw.Size())
		}
	}
}

// ForEach calls f for every event that the ring holds now, without waiting. See [Fold] for the
// order of things; if f returns an error, ForEach stops and returns it, or nil if it is [ErrStop].
// It returns os.ErrClosed after Close and [ErrBusy] if the ring is being read.
func (r *Ring) ForEach(f func(Event) error) error { return forEach(r, f) }

// Events is [Reader.Events] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Events(ctx context.Context) iter.Seq2[Event, error] { return stream(ctx, r) }

// Records is [Reader.Records] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Records(ctx context.Context) iter.Seq2[Record, error] { return records(ctx, r) }

// claim makes the caller the ring's only reader.
func (r *Ring) claim(as uint32) error {
	if r.owner.CompareAndSwap(idle, as) {
		return nil
	}
	if r.owner.Load() == ordering {
		return errOrdering
	}
	return fmt.Errorf("%w: CPU %d: by another goroutine or by the function it hands events to: a ring has one reader at a time", ErrBusy, r.cpu)
}

func (r *Ring) disclaim() { r.owner.Store(idle) }

func (r *Ring) interrupt() { r.reader.kernel.Interrupt() }
