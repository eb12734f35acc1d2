package perfbuf

import (
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/reader"
	"github.com/ringfold/ringfold/internal/walk"
)

// Ring is the ring of one CPU, returned by [Reader.Rings]. Each may have a [Ring.Stream] of its
// own, for a goroutine of its own.
type Ring struct {
	reader *Reader
	raw    *raw.Ring
	walk   walk.Ring
}

// add appends a ring over this memory to the reader's rings. It clones the reading side, because
// the kernel may keep the original, which must not refer to the reader: that would stop the garbage
// collector.
func (r *Reader) add(memory *raw.Ring) {
	memory = memory.Clone()
	memory.SetSource(r)
	if memory.Layout() != raw.LayoutRingBuf { // whose opener did it
		memory.SetFields(r.opts.Time.at(), -1)
	}
	ring := &Ring{reader: r, raw: memory}
	ring.walk.Raw, ring.walk.User = memory, ring
	r.in.Walk.Add(&ring.walk)
}

// Stream opens an unordered stream of this ring alone, to read each ring in a goroutine of its own.
// Any number of rings may have one at the same time. It returns [ErrBusy] while another Stream
// holds the ring, and os.ErrClosed after [Reader.Close], which also ends the stream.
//
// Its [Stream.Wait] follows the Reader's wakeup policy ([Wakeup]). Its only source is fixed:
// [Stream.Add], [Stream.Remove] and [Stream.Shutdown] return errors.
func (r *Ring) Stream() (*Stream, error) {
	s := &Stream{opts: StreamOptions{Order: Unordered()}}
	var err error
	if s.in, err = reader.NewRingStream(&s.batch.pass, &r.reader.in, &r.walk); err != nil {
		return nil, err
	}
	return s, nil
}

// CPU returns the number of the ring's CPU.
func (r *Ring) CPU() int { return r.raw.CPU() }

// Size returns the size of the ring's data in bytes.
func (r *Ring) Size() int { return int(r.raw.Size()) }

// Used returns how many bytes of the ring have not been given back to the kernel, 0 after Close. It
// never blocks and is safe to call at any time.
func (r *Ring) Used() int {
	if r.reader.in.Gate.Enter() != nil {
		return 0
	}
	defer r.reader.in.Gate.LeaveAtOnce()
	return int(r.walk.Used())
}
