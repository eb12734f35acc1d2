package perfbuf

import (
	"context"
	"iter"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/walk"
)

// Ring is the ring of one CPU, got from [Reader.Rings]. Rings may be read concurrently with each
// other, one goroutine each; two reads of one ring at the same time are refused with [ErrBusy].
type Ring struct {
	reader *Reader
	raw    *raw.Ring
	index  int // among the reader's rings
	walk   walk.Ring
	batch  *Batch // of a pass over this ring alone; nil before the first
}

// add makes the memory of a ring the reader's last ring. The kernel keeps its own reading side, if at all: it must not refer to
// the reader, which the garbage collector would then find in use.
func (r *Reader) add(memory *raw.Ring) {
	memory = memory.Clone()
	memory.SetSource(r)
	if memory.Layout() != raw.LayoutRingBuf { // whose opener has done it
		memory.SetFields(r.opts.Time.at(), -1)
	}
	ring := &Ring{reader: r, raw: memory, index: r.in.Walk.Len()}
	ring.walk.Raw, ring.walk.User = memory, ring
	r.in.Walk.Add(&ring.walk)
}

func (r *Ring) begin() (*Batch, error) {
	err := r.walk.Begin(func() *walk.Pass {
		r.batch = new(Batch)
		return &r.batch.pass
	})
	if err != nil {
		return nil, err
	}
	return r.batch, nil
}

// CPU is the number of the ring's CPU.
func (r *Ring) CPU() int { return r.raw.CPU() }

// Size is the number of the ring's data bytes.
func (r *Ring) Size() int { return int(r.raw.Size()) }

// Used returns how many bytes the ring holds that have not been given back to the kernel, 0 after
// Close. It never blocks and is safe to call at any time.
func (r *Ring) Used() int {
	if r.reader.in.Gate.Enter() != nil {
		return 0
	}
	defer r.reader.in.Gate.LeaveAtOnce()
	return int(r.walk.Used())
}

// ForEach calls f for every event that the ring holds now, without waiting. See [Fold] for the
// order of things; if f returns an error, ForEach stops and returns it, or nil if it is [ErrStop].
// It returns os.ErrClosed after Close, [ErrBusy] if the ring is being read, and [ErrDisplaced], once, when
// another reader has taken its entry.
func (r *Ring) ForEach(f func(Event) error) error { return forEach(r, f) }

// Events is [Reader.Events] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Events(ctx context.Context) iter.Seq2[Event, error] { return stream(ctx, r) }

// Records is [Reader.Records] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Records(ctx context.Context) iter.Seq2[Record, error] { return records(ctx, r) }

func (r *Ring) interrupt() { r.reader.interrupt() }
