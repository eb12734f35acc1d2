package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
)

// mostQueued is how many bytes may wait for a slow disk.
const mostQueued = 8 << 20

// queue is between the reader, which must not wait, and the disk.
type queue struct {
	spool *spool.Spool
	limit int64
	note  func(string)

	used     atomic.Int64  // bytes in the queue and in the spool
	appended atomic.Uint64 // messages

	mu       sync.Mutex
	waiting  [][]byte // messages
	bytes    int64    // of those, and of those that are being written
	finished bool
	more     sync.Cond // messages are waiting, or it is finished

	fresh chan struct{} // of capacity 1: there is something new in the spool
}

func newQueue(s *spool.Spool, limit int64, note func(string)) *queue {
	q := &queue{spool: s, limit: limit, note: note, fresh: make(chan struct{}, 1)}
	q.more.L = &q.mu
	q.used.Store(s.Bytes())
	return q
}

// push takes a message, if there is room for it, or if it must.
func (q *queue) push(b []byte, must bool) bool {
	n := int64(len(b))
	q.mu.Lock()
	defer q.mu.Unlock()
	// Only this adds: what there is room for now, there will be.
	if !must && (q.used.Load()+n > q.limit || q.bytes+n > mostQueued) {
		return false
	}
	q.used.Add(n)
	q.bytes += n
	q.waiting = append(q.waiting, b)
	q.more.Signal()
	return true
}

// busy reports whether so much waits for the disk that push might refuse more.
func (q *queue) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > mostQueued/2
}

// finish says that nothing more will be pushed.
func (q *queue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.more.Signal()
}

// run writes to the spool until the queue is finished and all is written. If that fails it tries
// again, until ctx is done.
func (q *queue) run(ctx context.Context) error {
	for {
		q.mu.Lock()
		for len(q.waiting) == 0 && !q.finished {
			q.more.Wait() // finish always comes
		}
		messages := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		if len(messages) == 0 {
			return nil
		}
		if err := persist(ctx, q.note, "writing to the spool again", func() error { return q.spool.Append(messages...) }); err != nil {
			q.mu.Lock()
			defer q.mu.Unlock()
			return fmt.Errorf("%d messages are lost: %w", len(messages)+len(q.waiting), err)
		}
		q.appended.Add(uint64(len(messages)))
		q.mu.Lock()
		for _, b := range messages {
			q.bytes -= int64(len(b))
		}
		q.mu.Unlock()
		select {
		case q.fresh <- struct{}{}:
		default:
		}
	}
}

// persist calls f until it succeeds, or ctx is done. It notes the first failure, and the success
// after it.
func persist(ctx context.Context, note func(string), again string, f func() error) error {
	var retry backoff
	for {
		err := f()
		if err == nil {
			if retry.reset() {
				note(again)
			}
			return nil
		}
		if retry.first() {
			note(fmt.Sprintf("%v: trying on", err))
		}
		if !retry.sleep(ctx) {
			return err
		}
	}
}

// backoff is how long to wait between tries, longer each time.
type backoff struct{ d time.Duration }

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 2 * time.Second
)

// first reports whether nothing has failed since the last success.
func (b *backoff) first() bool { return b.d == 0 }

// reset records a success, and reports whether there were failures before.
func (b *backoff) reset() bool {
	failed := b.d > 0
	b.d = 0
	return failed
}

// sleep returns false when ctx is done.
func (b *backoff) sleep(ctx context.Context) bool {
	b.d = min(max(2*b.d, firstBackoff), lastBackoff)
	t := time.NewTimer(b.d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
