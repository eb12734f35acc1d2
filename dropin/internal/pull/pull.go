// Package pull hands out the events of a perfbuf.Reader one by one, as copies. It is the part that
// the drop-ins for cilium/ebpf's readers share.
package pull

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// ErrFlushed is returned by Next after all events from before a Flush.
var ErrFlushed = errors.New("all events from before the Flush have been read")

var errClosed = fmt.Errorf("the reader is closed: %w", os.ErrClosed)

// Event describes an event that Next has handed out.
type Event struct {
	CPU       int
	Lost      uint64 // outputs that failed; 0: the event is a sample
	Remaining int    // bytes of this CPU that wait in its ring, or copied to the queue
}

// Queue holds copies of events that a pass has taken out of the rings. Methods may be called
// concurrently.
type Queue struct {
	reader  *perfbuf.Reader
	stream  *perfbuf.Stream
	flush   atomic.Bool  // Flush was called; no marker has been asked for yet
	waiting atomic.Int64 // bytes of payloads in the queue

	mu       sync.Mutex // Next holds it, also while it waits
	closed   bool
	deadline time.Time
	ctx      context.Context // ends at the deadline; nil until a wait needs it
	cancel   context.CancelFunc
	events   []event
	next     int    // index of the first event not handed out
	data     []byte // payloads of events, one behind the other
	start    int    // of the next payload
	more     bool   // the latest pass has reached a limit
	asked    error  // what the marker stands for that was asked for; nil: none was
	take     func(perfbuf.Event) error
	cpus     map[int]*cpu
}

// New makes a Queue of all events of a reader. It closes the reader if it fails, with an error of
// perfbuf.Reader.Stream.
func New(r *perfbuf.Reader, o perfbuf.Order) (*Queue, error) {
	stream, err := r.Stream(perfbuf.StreamOptions{Order: o})
	if err != nil {
		r.Close()
		return nil, err
	}
	q := &Queue{reader: r, stream: stream, cancel: func() {}, cpus: map[int]*cpu{}}
	q.take = q.append
	return q, nil
}

// Next waits for an event and copies its payload to *sample, whose memory it reuses if that is
// large enough. Losses have an empty payload. It returns os.ErrDeadlineExceeded, ErrFlushed, errors
// that wrap os.ErrClosed, those of corrupt memory, after which the next call goes on, and those of
// perfbuf.Stream.Run. With an error, *sample stays as it is.
func (q *Queue) Next(sample *[]byte) (Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return Event{}, errClosed
	}
	for q.next == len(q.events) {
		if err := q.fill(); err != nil {
			return Event{}, err
		}
	}
	ev := &q.events[q.next]
	q.next++
	if ev.err != nil {
		return Event{}, ev.err
	}
	*sample = append((*sample)[:0], q.data[q.start:q.start+ev.size]...)
	q.start += ev.size
	q.waiting.Add(int64(-ev.size))
	ev.cpu.queued -= ev.size
	remaining := ev.cpu.queued
	for _, r := range ev.cpu.rings {
		remaining += r.Used()
	}
	return Event{CPU: ev.cpu.number, Lost: ev.lost, Remaining: remaining}, nil
}

// SetDeadline sets when Next gives up waiting; zero is never. It waits for a Next under way.
func (q *Queue) SetDeadline(t time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cancel()
	q.deadline, q.ctx = t, nil
}

// Flush makes Next return the events up to now, and then ErrFlushed. It does not block. It returns
// an error that wraps os.ErrClosed after Close.
func (q *Queue) Flush() error {
	q.flush.Store(true)
	return closedOr(q.stream.Flush()) // ends a wait
}

// Waiting returns how many bytes wait: records in rings, and payloads in the queue. It does not
// block.
func (q *Queue) Waiting() int {
	n := int(q.waiting.Load())
	for _, r := range q.reader.Rings() {
		n += r.Used()
	}
	return n
}

// Close drops the events that are left, and frees the rings. It ends a Next, and waits for that and
// for running programs: usually some ms, at most a second more.
func (q *Queue) Close() error {
	q.reader.Close()
	q.stream.Close()
	q.mu.Lock()
	q.closed = true
	q.cancel()
	q.mu.Unlock()
	<-q.reader.Done()
	return nil
}
