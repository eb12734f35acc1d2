package perfbuf

import (
	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/stream"
)

// Ring is the ring of one CPU, returned by [Reader.Rings]. Each may have a [Ring.Stream] of its
// own, for a goroutine of its own.
type Ring struct {
	reader *Reader
	index  int
}

func (r *Ring) walk() *stream.Ring { return r.reader.in.Walk.At(r.index) }

// Stream opens an unordered stream of this ring alone, to read each ring in a goroutine of its own.
// Any number of rings may have one at the same time. It returns [ErrBusy] while another Stream
// holds the ring, and os.ErrClosed after [Reader.Close], which also ends the stream.
//
// Its [Stream.Wait] follows the Reader's wakeup policy ([Wakeup]). Its only source is fixed:
// [Stream.Add], [Stream.Remove] and [Stream.Shutdown] return errors.
func (r *Ring) Stream() (*Stream, error) {
	s := &Stream{opts: StreamOptions{Order: Unordered()}}
	var err error
	if s.in, err = engine.NewRingStream(&s.batch.pass, &r.reader.in, r.walk()); err != nil {
		return nil, err
	}
	return s, nil
}

// CPU returns the number of the ring's CPU.
func (r *Ring) CPU() int { return r.walk().Raw.CPU() }

// Size returns the size of the ring's data in bytes.
func (r *Ring) Size() int { return int(r.walk().Raw.Size()) }

// Used returns how many bytes of the ring have not been given back to the kernel, 0 after Close. It
// never blocks and is safe to call at any time.
func (r *Ring) Used() int {
	if r.reader.in.Gate.Enter() != nil {
		return 0
	}
	defer r.reader.in.Gate.LeaveAtOnce()
	return int(r.walk().Used())
}
