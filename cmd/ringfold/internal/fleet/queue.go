package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
)

// mostQueued is how many bytes may wait for a slow disk.
const mostQueued = 8 << 20

// queue is between the reader, which must not wait, and the disk.
type queue struct {
	spool *spool.Spool
	limit int64 // of bytes in the queue and in the spool
	waits bool  // for the disk
	note  func(string)

	appended atomic.Uint64 // messages

	mu       sync.Mutex
	waiting  [][]byte // messages
	bytes    int64    // of those, and of those that are being written
	finished bool
	changed  sync.Cond

	fresh chan struct{} // of capacity 1: there is something new in the spool; closed: that was all
}

func newQueue(s *spool.Spool, o SinkOptions) *queue {
	q := &queue{spool: s, limit: int64(o.SpoolBytes), waits: o.Wait, note: o.Note, fresh: make(chan struct{}, 1)}
	q.changed.L = &q.mu
	return q
}

// push takes a message, if there is room for it, or if it must.
func (q *queue) push(b []byte, must bool) bool {
	n := int64(len(b))
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.waits && q.bytes+n > mostQueued {
		q.changed.Wait()
	}
	// Only this adds: what there is room for now, there will be.
	if !must && (q.bytes+q.spool.Bytes()+n > q.limit || q.bytes+n > mostQueued) {
		return false
	}
	q.bytes += n
	q.waiting = append(q.waiting, b)
	q.changed.Broadcast()
	return true
}

// finish says that nothing more will be pushed.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.changed.Broadcast()
}

// run writes to the spool until the queue is finished and all is written. If that fails it tries
// again, until ctx is done.
func (q *queue) run(ctx context.Context) error {
	defer close(q.fresh)
	for {
		q.mu.Lock()
		for len(q.waiting) == 0 && !q.finished {
			q.changed.Wait() // finish always comes
		}
		messages := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		if len(messages) == 0 {
			return nil
		}
		const what = "writing to the spool"
		if err := (retry{what: what, note: q.note}).do(ctx, func() error { return q.spool.Append(messages...) }); err != nil {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.waits, q.limit = false, -1 // nobody writes any more
			q.changed.Broadcast()
			return fmt.Errorf("%d messages are lost: %s: %w", len(messages)+len(q.waiting), what, err)
		}
		q.appended.Add(uint64(len(messages)))
		q.mu.Lock()
		for _, b := range messages { // for a moment they count twice
			q.bytes -= int64(len(b))
		}
		q.changed.Broadcast()
		q.mu.Unlock()
		select {
		case q.fresh <- struct{}{}:
		default:
		}
	}
}
