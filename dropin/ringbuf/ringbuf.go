// Package ringbuf is a drop-in for cilium/ebpf's package ringbuf, which reads BPF ring buffers:
// change the import path. It does not import cilium/ebpf. It also reads several ring buffers, such
// as one per CPU, as one.
//
// docs/migrating.md lists what stays and what changes. Package perfbuf reads events in place, and
// orders those of several ring buffers.
package ringbuf

import (
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

// Record is what a program has submitted.
type Record struct {
	// RawSample is a copy, which [Reader.ReadInto] overwrites if it gets the same Record again.
	RawSample []byte

	// Remaining is how many bytes are still to be read of the Record's ring buffer: records, and
	// payloads that the Reader has copied ahead.
	Remaining int
}

// Reader reads a BPF ring buffer, in its own order. Methods may be called from any goroutine; of
// several that call Read at once, one waits for the other.
type Reader struct {
	rings *perfbuf.Reader
	queue *pull.Queue
}

// NewReader returns a Reader of a BPF ring buffer, an *ebpf.Map, which you may close afterwards. An
// array or a hash of ring buffers will do, too; between these there is no order. It does not block.
// Errors are those of [perfbuf.OpenRingBuf].
func NewReader(ringbufMap interface{ FD() int }) (*Reader, error) {
	defer runtime.KeepAlive(ringbufMap) // the garbage collector may close its descriptor
	fail := func(err error) (*Reader, error) { return nil, fmt.Errorf("ringbuf.NewReader: %w", err) }
	r, err := perfbuf.OpenRingBuf(ringbufMap.FD(), perfbuf.Options{})
	if err != nil {
		return fail(err)
	}
	q, err := pull.New(r, perfbuf.Unordered())
	if err != nil {
		return fail(err)
	}
	return &Reader{rings: r, queue: q}, nil
}

// Close ends a Read under way, with [ErrClosed], and waits for it. Records that were not read stay
// in the map, except for those that the Reader has copied ahead. Later calls do nothing. The error
// is always nil.
func (r *Reader) Close() error { return r.queue.Close() }

// SetDeadline sets when Read and ReadInto give up waiting for records. The zero time is never, and
// with a time in the past they do not wait. It blocks while another goroutine reads.
func (r *Reader) SetDeadline(t time.Time) { r.queue.SetDeadline(t) }

// Read returns the next record, which you may keep. It blocks until there is one. Records that
// programs submit with BPF_RB_NO_WAKEUP come within 100 ms.
//
// Errors are os.ErrDeadlineExceeded (see [Reader.SetDeadline]) and [ErrFlushed] (see
// [Reader.Flush]), both after all records from before; errors that wrap [ErrClosed]; and a
// [*perfbuf.CorruptError] for memory that was skipped. After all but ErrClosed you may go on
// reading.
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
	rec.Remaining = ev.Remaining
	return nil
}

// BufferSize returns the size of the ring buffer in bytes, or of all together.
func (r *Reader) BufferSize() (bytes int) {
	for _, ring := range r.rings.Rings() {
		bytes += ring.Size()
	}
	return bytes
}

// Flush makes Read return all records up to now, and then [ErrFlushed]. It does not block. After
// Close it returns an error that wraps ErrClosed.
func (r *Reader) Flush() error { return r.queue.Flush() }

// AvailableBytes returns how many bytes are to be read: records in the ring buffer, and payloads
// that the Reader has copied ahead. It does not block.
func (r *Reader) AvailableBytes() int { return r.queue.Waiting() }
