// Package perf is a drop-in for cilium/ebpf's package perf, which reads BPF perf event arrays:
// change the import path, and events of all CPUs come in the order in which they happened. It does
// not import cilium/ebpf.
//
//	reader, err := perf.NewReader(collection.Maps["events"], os.Getpagesize())
//	if err != nil {
//		return err
//	}
//	defer reader.Close()
//	for {
//		record, err := reader.Read()
//		if errors.Is(err, perf.ErrClosed) {
//			return nil
//		} ...
//		handle(record.CPU, record.RawSample, record.LostSamples)
//	}
//
// docs/migrating.md lists what stays and what changes. Package perfbuf reads events in place, with
// their time, and without a call per event.
package perf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ringfold/ringfold/dropin/internal/pull"
	"github.com/ringfold/ringfold/perfbuf"
)

var (
	ErrClosed  = os.ErrClosed
	ErrFlushed = pull.ErrFlushed
)

// Record is a sample, or a number of lost samples.
type Record struct {
	// CPU is where the event was output.
	CPU int

	// RawSample is the payload that the program output, and 0 to 7 bytes of padding. It is a copy,
	// which [Reader.ReadInto] overwrites if it gets the same Record again.
	RawSample []byte

	// LostSamples counts outputs that failed because the ring was full. RawSample is then empty.
	LostSamples uint64

	// Remaining is how many bytes of the CPU's ring are still to be read: records in the ring, and
	// payloads that the Reader has copied out of it ahead.
	Remaining int
}

// ReaderOptions configures a Reader. The zero value is good.
type ReaderOptions struct {
	// WakeupEvents wakes Read after this many events on a CPU. 1 wakes it for each. Fewer do not
	// wait for others for long: Read looks every 10 ms.
	WakeupEvents int

	// Watermark wakes Read after this many bytes on a CPU, fewer than perCPUBuffer; more than half
	// of that counts as half. Read looks every 10 ms here, too.
	//
	// Without either, rare events wake Read at once, at most 1,000 a second and CPU. Above that it
	// looks every millisecond: see [perfbuf.Wakeup].
	Watermark int

	// Overwritable is refused with an error: package perfbuf/flight has a flight recorder instead,
	// which takes snapshots of such rings.
	Overwritable bool

	// Order is the order of events. cilium/ebpf has no such field. The zero value is exact order in
	// time over all CPUs. perfbuf.Slack(d) waits a fixed time instead of proving the order, and
	// perfbuf.Unordered() reads ring by ring, as cilium/ebpf does, without a delay.
	Order perfbuf.Order
}

// Reader reads a perf event array. Methods may be called from any goroutine; of several that call
// Read at once, one waits for the other.
type Reader struct {
	rings *perfbuf.Reader
	queue *pull.Queue
	size  int
}

// NewReader is NewReaderWithOptions with the default options.
func NewReader(array interface{ FD() int }, perCPUBuffer int) (*Reader, error) {
	return NewReaderWithOptions(array, perCPUBuffer, ReaderOptions{})
}

// NewReaderWithOptions sets up a ring for each CPU in a perf event array, an *ebpf.Map, which you
// may close afterwards. perCPUBuffer is the size of a ring in bytes, rounded up to a power of two
// of pages.
//
// Errors are those of [perfbuf.Open], and in exact order those of [perfbuf.Reader.Stream], if this
// process has no way to prove the order. The first exact Reader of a process blocks for 20 to 50
// ms, on a busy machine for up to 0.4 s; later ones for an RCU grace period, usually some ms.
// Without order it does not block.
func NewReaderWithOptions(array interface{ FD() int }, perCPUBuffer int, opts ReaderOptions) (*Reader, error) {
	defer runtime.KeepAlive(array) // the garbage collector may close its descriptor
	return newReader(func(o perfbuf.Options) (*perfbuf.Reader, error) { return perfbuf.Open(array.FD(), o) }, perCPUBuffer, opts)
}

// interval is how long frequent events may wait: with cilium/ebpf they do not wait.
const interval = time.Millisecond

func newReader(open func(perfbuf.Options) (*perfbuf.Reader, error), perCPUBuffer int, opts ReaderOptions) (*Reader, error) {
	fail := func(err error) (*Reader, error) { return nil, fmt.Errorf("perf.NewReader: %w", err) }
	switch {
	case perCPUBuffer < 1:
		return fail(fmt.Errorf("perCPUBuffer is %d: pass the size of a CPU's ring in bytes", perCPUBuffer))
	case opts.WakeupEvents > 0 && opts.Watermark > 0:
		return fail(errors.New("both WakeupEvents and Watermark are set: set one"))
	case opts.Watermark >= perCPUBuffer:
		return fail(fmt.Errorf("option Watermark is %d: it must be smaller than perCPUBuffer, %d", opts.Watermark, perCPUBuffer))
	case opts.Overwritable:
		return fail(errors.New("option Overwritable is set: read such rings with the flight recorder, flight.Open of github.com/ringfold/ringfold/perfbuf/flight"))
	}
	o := perfbuf.Options{RingBytes: perCPUBuffer, NoTime: opts.Order == perfbuf.Unordered()}
	o.Wakeup = perfbuf.Wakeup{Events: opts.WakeupEvents, Bytes: min(opts.Watermark, perCPUBuffer/2)}
	if o.Wakeup == (perfbuf.Wakeup{}) {
		o.Wakeup.PollInterval = interval
	}
	r, err := open(o)
	if err != nil {
		return fail(err)
	}
	q, err := pull.New(r, opts.Order)
	if err != nil {
		return fail(err)
	}
	return &Reader{rings: r, queue: q, size: r.Options().RingBytes}, nil
}

// Close frees the rings and drops events that were not read. Outputs fail with ENOENT from then on.
// It ends a Read under way, with [ErrClosed], and waits for it and for running programs: usually
// some ms, at most a second. Later calls do nothing. The error is always nil.
func (r *Reader) Close() error { return r.queue.Close() }

// SetDeadline sets when Read and ReadInto give up waiting for events. The zero time is never, and
// with a time in the past they do not wait for new events. It blocks while another goroutine reads.
func (r *Reader) SetDeadline(t time.Time) { r.queue.SetDeadline(t) }

// Read returns the next record, which you may keep. It blocks until there is one.
//
// Errors are os.ErrDeadlineExceeded (see [Reader.SetDeadline]) and [ErrFlushed] (see
// [Reader.Flush]), both after all events from before; errors that wrap [ErrClosed]; a
// [*perfbuf.CorruptError] for memory that was skipped; [perfbuf.ErrDisplaced], once, when another
// reader has taken the map; and [perfbuf.ErrBarriers]. After all but ErrClosed you may go on
// reading.
//
// In order, an event comes after those of other CPUs that happened before it. Exact order delays
// it until that is proved, usually for less than a millisecond: see [perfbuf.Order]. A deadline and
// a flush take as long, because the events before them must be proved complete.
func (r *Reader) Read() (rec Record, err error) {
	err = r.ReadInto(&rec)
	return rec, err
}

// ReadInto is Read into a record whose RawSample is overwritten if it is large enough. With an
// error, the record stays as it is. It allocates nothing otherwise, except where it waits with a
// deadline.
func (r *Reader) ReadInto(rec *Record) error {
	ev, err := r.queue.Next(&rec.RawSample)
	if err != nil {
		return err
	}
	rec.CPU, rec.LostSamples, rec.Remaining = ev.CPU, ev.Lost, ev.Remaining
	return nil
}

// Pause takes the rings out of the map: outputs fail with ENOENT until Resume. Events in the rings
// can still be read. It does not block. Errors are those of [perfbuf.Reader.Pause].
func (r *Reader) Pause() error { return r.rings.Pause() }

// Resume puts the rings back into the map. Errors are those of [perfbuf.Reader.Resume].
func (r *Reader) Resume() error { return r.rings.Resume() }

// BufferSize returns the size of each CPU's ring in bytes.
func (r *Reader) BufferSize() int { return r.size }

// Flush makes Read return all events up to now, and then [ErrFlushed]. It does not block. After
// Close it returns an error that wraps ErrClosed.
func (r *Reader) Flush() error { return r.queue.Flush() }

// IsUnknownEvent is always false: the Reader skips records of unknown type.
func IsUnknownEvent(err error) bool { return false }
