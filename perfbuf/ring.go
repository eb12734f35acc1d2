package perfbuf

import (
	"fmt"
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/ringfold/ringfold/internal/raw"
)

// Ring is the ring of one CPU, got from [Reader.Rings]. Rings may be read concurrently with each
// other, one goroutine each; two reads of one ring at the same time are refused with [ErrBusy].
type Ring struct {
	reader *Reader
	cpu    int
	index  int // among the reader's rings
	raw    *raw.Ring
	base   unsafe.Pointer // where the part of a record behind the ring's edge is; elsewhere in the poison build
	owner  atomic.Uint32  // who reads: one of idle, folding, ordering
	waited atomic.Bool    // a goroutine is in Wait
	served chan error     // what ends that
	unset  bool           // its entry in the map could not be set; for whoever follows CPUs

	flushed bool // it held something at a Flush, when nobody was in Wait; under the lobby's lock

	// For a pass over all rings.
	target uint64 // head at its beginning
	looked uint64 // head at its latest look

	// For the owner only.
	batch   Batch         // with the user; ordered streams have one of their own
	samples []raw.Record  // of the batch
	other   [1]raw.Record // of a batch that is no sample
	last    uint64        // time of the latest record read, unordered
	unlost  uint64        // no loss of the latest report is from before this time, unordered
	after   uint64        // of the loss that is with the user: where its interval begins
	late    bool          // of the event that is with the user
	scratch []byte        // an event that wraps, in one piece
	poison  []byte        // poison build: the bytes of the event that is with the user

	// Of ordered streams, and of what they leave behind.
	pressed      bool   // it was nearly full, and has not been asked about since
	pressedAt    uint64 // head, when it was last seen to move after that
	pressedSince uint64 // when that was
	reported     uint64 // losses delivered before the stream began
	advance      uint64 // losses delivered that no record has reported yet: the record that does is cut by them

	counts ringCounts
}

const (
	idle uint32 = iota
	folding
	ordering
)

func newRing(cpu int, r *raw.Ring) *Ring {
	return &Ring{cpu: cpu, raw: r, base: r.Base(), served: make(chan error, 1), samples: raw.NewBatch(batchSize)}
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

// ForEach calls f for every event that the ring holds now, without waiting. See [TryFold] for the
// order of things; if f returns an error, ForEach stops and returns it, or nil if it is [ErrStop].
// It returns os.ErrClosed after Close and [ErrBusy] if the ring is being read.
func (r *Ring) ForEach(f func(Event) error) error { return forEach(r, f) }

// Events iterates over every event that the ring holds now, without waiting, and frees them when
// the loop ends, however it ends: break and panic free what the loop body has seen. The error is
// nil with an event; os.ErrClosed or [ErrBusy] come alone and end the loop.
func (r *Ring) Events() iter.Seq2[Event, error] { return events(r) }

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

// join copies an event that wraps into the ring's scratch buffer.
func (e Event) join() []byte {
	r := e.ring
	if poison {
		return r.poison
	}
	r.scratch = append(append(r.scratch[:0], e.Head()...), e.Tail()...)
	return r.scratch
}

// divert points a sample at a copy of its bytes, for the poison build.
func (r *Ring) divert(rec *raw.Record) {
	// Invariant of raw.Record: First of Len bytes are at Data, the rest at the ring's base.
	head := unsafe.Slice((*byte)(rec.Data), rec.First)
	tail := unsafe.Slice((*byte)(r.raw.Base()), rec.Len-rec.First)
	r.poison = append(append(make([]byte, 0, rec.Len+1), head...), tail...) // one more: base below stays inside
	rec.Data = unsafe.Pointer(unsafe.SliceData(r.poison))
	r.base = unsafe.Add(rec.Data, rec.First)
}

// expire ends the life of the event that was with the user, for the poison build.
func (r *Ring) expire() {
	for i := range r.poison {
		r.poison[i] = 0xCC
	}
}
