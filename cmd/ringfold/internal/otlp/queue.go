package otlp

import (
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/log"
)

// A request has so much at most. Collectors take 4 MiB by default; sizes are estimated.
const (
	batchRecords = 512
	batchBytes   = 1 << 20
)

const (
	// queueBytes bounds what waits for the collector. Beyond it, reading waits.
	queueBytes = 16 << 20
	// linger is how long a record waits for others, to share a request.
	linger = 200 * time.Millisecond
	// recordBytes is what a record takes in memory and in a request, without its body.
	recordBytes = 1 << 10
)

// item is a record, and what it counts.
type item struct {
	record sdk.Record
	size   int // about, in bytes
	Counts
}

// queue holds the records on their way from the reader to the sender.
type queue struct {
	more, room chan struct{} // signals: something has been put, or taken out

	mu      sync.Mutex
	items   []item
	waiting int // bytes of items
	bytes   int // of items, and of those that the sender has not finished
	closed  bool
	err     error // why nothing more is sent
}

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put adds a record. It blocks while the queue is full, and returns the error that ended the sender.
func (q *queue) put(i item) error {
	i.size += recordBytes
	for {
		q.mu.Lock()
		if q.err == nil && q.bytes > 0 && q.bytes+i.size > queueBytes {
			q.mu.Unlock()
			<-q.room
			continue
		}
		err := q.err
		if err == nil {
			q.items, q.bytes, q.waiting = append(q.items, i), q.bytes+i.size, q.waiting+i.size
		}
		wake := len(q.items) == 1 || len(q.items) == batchRecords || q.waiting > batchBytes
		q.mu.Unlock()
		if wake {
			signal(q.more)
		}
		return err
	}
}

// take waits until there is a batch, or what there is has waited for long enough. It returns nil at the end.
func (q *queue) take() []item {
	var timer <-chan time.Time
	waited := false
	for {
		q.mu.Lock()
		n, whole := batch(q.items)
		if n > 0 && (whole || waited || q.closed) {
			taken := q.items[:n:n]
			if q.items = q.items[n:]; len(q.items) == 0 {
				q.items = nil
			}
			for _, i := range taken {
				q.waiting -= i.size
			}
			q.mu.Unlock()
			return taken
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil
		}
		if n > 0 && timer == nil {
			timer = time.After(linger)
		}
		select {
		case <-q.more:
		case <-timer:
			waited = true
		}
	}
}

// batch is how many of the items go into a request, and whether no more would.
func batch(items []item) (n int, whole bool) {
	bytes := 0
	for n, i := range items {
		if bytes += i.size; n == batchRecords || n > 0 && bytes > batchBytes {
			return n, true
		}
	}
	return len(items), len(items) == batchRecords
}

// sent makes room, as the collector has these.
func (q *queue) sent(items []item) {
	q.mu.Lock()
	for _, i := range items {
		q.bytes -= i.size
	}
	q.mu.Unlock()
	signal(q.room)
}

// fail ends it: put returns err from now on.
func (q *queue) fail(err error) {
	q.mu.Lock()
	q.err, q.items = err, nil
	q.mu.Unlock()
	signal(q.room)
}

// failed returns the error of fail.
func (q *queue) failed() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// close lets take hand out the rest without waiting, and then nil.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	signal(q.more)
}
