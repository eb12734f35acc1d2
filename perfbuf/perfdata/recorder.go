package perfdata

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/perfbuf"
)

// Recorder writes events to perf.data. Make one with [Create] or [NewRecorder], and end it with
// [Recorder.Close]. Use it from one goroutine at a time; Stats may be called from any. Recording an
// event allocates nothing, and copies its payload once.
type Recorder struct {
	opts   Options
	out    output
	events []event
	buf    []byte  // records not written yet
	packer *packer // nil: records are not compressed
	err    error   // of a write: no more events are recorded

	source string // of the event before, and its id
	id     uint64

	count             uint64 // of samples; the atomic one costs time
	buffered, written span   // times of events in buf, and of those in the present file

	samples, bytes, lost, shed, corrupt, tooLarge, files atomic.Uint64
}

// event is an attribute of the file, which has one id.
type event struct {
	name string
	id   uint64
	attr []byte
	btf  []byte
}

func newRecorder(o Options) *Recorder {
	r := &Recorder{opts: o, buf: make([]byte, 0, o.BufferBytes)}
	for i, e := range o.Events {
		r.events = append(r.events, event{e.name(), uint64(i + 1), o.attr(swBPFOutput), e.BTF})
	}
	if o.Compress != nil {
		r.packer = &packer{c: o.Compress}
	}
	r.events = append(r.events, event{"corrupt", uint64(len(r.events) + 1), o.attr(swDummy), nil})
	r.id = 1
	return r
}

// first begins the first file, and leaves nothing open if that fails.
func (r *Recorder) first() (*Recorder, error) {
	if err := r.begin(); err != nil {
		r.err = fmt.Errorf("perfdata: %w", err)
		r.out.end()
	}
	return r, r.err
}

func (r *Recorder) begin() error {
	r.files.Add(1)
	r.written = span{}
	if r.packer != nil {
		r.packer.begin()
	}
	return r.out.begin()
}

// Run records the events that a stream delivers, until ctx is done or the stream is closed. It
// flushes after each pass. It returns the reason, never nil: context.Cause(ctx), os.ErrClosed,
// other errors of [perfbuf.Stream.RunBatches], or the error of a write. Later events are still in
// the rings: see [perfbuf.Stream.Drain].
func (r *Recorder) Run(ctx context.Context, stream *perfbuf.Stream) error {
	proven := stream.Options().Order == perfbuf.Order{}
	before := r.count
	err := stream.RunBatches(ctx, func(b *perfbuf.Batch) error {
		if b.End() {
			if proven && r.count != before {
				if p := r.room(8); p != nil {
					putHeader(p, typeFinishedRound, 8)
				}
			}
			before = r.count
			return r.Flush()
		}
		for ev := range b.Events() {
			if err := r.Record(ev); err != nil {
				return err
			}
		}
		return nil
	})
	if failed := r.Flush(); failed != nil && !errors.Is(err, failed) {
		return errors.Join(err, failed)
	}
	return err
}

// Record records one event. It copies to memory, and writes when the buffer is full. Of a marker
// ([perfbuf.KindFlushed]) only the time counts, for a [RoundWriter]. After a failed write Record
// only returns that error.
func (r *Recorder) Record(ev perfbuf.Event) error {
	switch ev.Kind() {
	case perfbuf.KindSample:
		b := ev.Bytes()
		if len(b) > MaxSample {
			r.tooLarge.Add(1)
			return r.loss(ev, typeLostSamples, 8, 1)
		}
		if r.sample(ev, r.idOf(ev), b) {
			r.count++
		}
	case perfbuf.KindLost, perfbuf.KindShed:
		if ev.Kind() == perfbuf.KindLost {
			r.lost.Add(ev.Lost())
		} else {
			r.shed.Add(ev.Lost())
		}
		return r.loss(ev, typeLost, 16, ev.Lost())
	case perfbuf.KindFlushed:
		if r.Flush() == nil {
			r.failed(r.out.round(ev.Time()))
		}
	case perfbuf.KindCorrupt:
		r.corrupt.Add(1)
		var corrupt *perfbuf.CorruptError
		errors.As(ev.Err(), &corrupt)
		body := native.AppendUint64(native.AppendUint64(nil, corrupt.Offset), corrupt.Skipped)
		r.sample(ev, r.events[len(r.events)-1].id, append(body, corrupt.Reason...))
	}
	return r.err
}

// sample writes a sample, unless there was an error.
func (r *Recorder) sample(ev perfbuf.Event, id uint64, payload []byte) bool {
	p := r.room((payloadAt + len(payload) + 7) &^ 7)
	if p == nil {
		return false
	}
	native.PutUint64(p[len(p)-8:], 0) // padding
	putHeader(p, typeSample, len(p))
	native.PutUint64(p[idAt:], id)
	native.PutUint64(p[ipAt:], 0)
	native.PutUint64(p[timeAt:], r.time(ev.Time()))
	native.PutUint32(p[cpuAt:], uint32(ev.CPU()))
	native.PutUint32(p[cpuAt+4:], 0)
	native.PutUint32(p[rawAt:], uint32(len(payload)))
	copy(p[payloadAt:], payload)
	return true
}

// time notes that of an event, for the file's features.
func (r *Recorder) time(time uint64) uint64 {
	r.buffered.add(time, time)
	return time
}

// span is from the earliest time of events to the latest, 0 if there are none.
type span struct{ first, last uint64 }

func (s *span) add(first, last uint64) {
	if s.first == 0 || first < s.first {
		s.first = first
	}
	s.last = max(s.last, last)
}

// idOf is the id of the event that a source is recorded as.
func (r *Recorder) idOf(ev perfbuf.Event) uint64 {
	if len(r.opts.Events) == 1 {
		return r.id
	}
	if src := ev.Source(); src != r.source {
		r.source, r.id = src, 1
		for i, e := range r.opts.Events {
			if e.Name == src {
				r.id = uint64(i + 1)
			}
		}
	}
	return r.id
}

// loss writes the record of an event's loss, with the count at an offset.
func (r *Recorder) loss(ev perfbuf.Event, typ uint32, at int, n uint64) error {
	e := entry{cpu: ev.CPU(), time: ev.Time(), lost: n, counted: ev.Counted(), payload: []byte(ev.Reason())}
	if e.counted {
		e.after, e.lane = ev.LostAfter(), uint32(ev.Lane())
		if ev.Kind() == perfbuf.KindShed {
			e.lane |= raw.CountedShed
		}
	}
	r.time(e.time)
	if p := r.room(e.lostSize(at)); p != nil {
		e.putLost(p, typ, at, r.idOf(ev))
	}
	return r.err
}

// lostSize is that of a record of a loss, with the count at an offset.
func (e *entry) lostSize(at int) int {
	size := at + 8 + 24
	if e.counted {
		size += 16 + (len(e.payload)+7)&^7
	}
	return size
}

// putLost writes a PERF_RECORD_LOST or LOST_SAMPLES of lostSize bytes. A counted loss does not lie
// between the events of its CPU. So its LostAfter time, its lane and its reason follow the count,
// where perf reads nothing.
func (e *entry) putLost(p []byte, typ uint32, at int, id uint64) {
	putHeader(p, typ, len(p))
	own := len(p) - 24 // time, CPU and id are those of sample_id_all
	native.PutUint64(p[8:], id)
	native.PutUint64(p[at:], e.lost)
	if e.counted {
		native.PutUint64(p[countedAt:], e.after)
		native.PutUint64(p[countedAt+8:], uint64(e.lane))
		clear(p[copy(p[countedAt+16:own], e.payload)+countedAt+16 : own])
	}
	native.PutUint64(p[own:], e.time)
	native.PutUint32(p[own+8:], uint32(e.cpu))
	native.PutUint32(p[own+12:], 0)
	native.PutUint64(p[own+16:], id)
}

// room is memory for a record of so many bytes, nil after an error.
func (r *Recorder) room(size int) []byte {
	if len(r.buf)+size > cap(r.buf) {
		r.Flush()
	}
	if r.err != nil {
		return nil
	}
	n := len(r.buf)
	r.buf = r.buf[:n+size]
	return r.buf[n:]
}

// Flush writes the buffer, and begins a new file if it is time. A file is then readable up to here,
// even if the process dies. It does not call fsync.
func (r *Recorder) Flush() error {
	if r.err != nil || len(r.buf) == 0 {
		return r.err
	}
	if r.write() == nil {
		r.samples.Store(r.count)
		if r.buffered.last != 0 {
			r.written.add(r.buffered.first, r.buffered.last)
			r.failed(r.out.round(r.written.last))
		}
	}
	r.buf, r.buffered = r.buf[:0], span{}
	return r.err
}

// write writes the buffer, into a new file if it is time.
func (r *Recorder) write() error {
	b, err := r.packed()
	if err == nil && r.out.full(len(b)) {
		if r.failed(r.out.end()) != nil || r.failed(r.begin()) != nil {
			return r.err
		}
		b, err = r.packed() // into this file's stream
	}
	if err == nil {
		err = r.out.write(b)
	}
	return r.failed(err)
}

// packed returns the buffer, compressed if the options say so.
func (r *Recorder) packed() ([]byte, error) {
	if r.packer == nil {
		return r.buf, nil
	}
	return r.packer.pack(r.buf)
}

// Close writes the buffer and the end of the file, and closes a file that [Create] has made. Its
// error is that of a write, an earlier one too. Later calls return [os.ErrClosed].
func (r *Recorder) Close() error {
	if r.err == os.ErrClosed {
		return r.err
	}
	err := r.Flush()
	err = errors.Join(err, r.out.end())
	r.err = os.ErrClosed
	return err
}

// failed keeps the first error.
func (r *Recorder) failed(err error) error {
	if err != nil && r.err == nil {
		what := "recording ends here, and the file is complete up to here"
		if r.opts.Until != 0 {
			what = "the snapshot is not written"
		}
		r.err = fmt.Errorf("perfdata: %s: %w", what, err)
	}
	return r.err
}
