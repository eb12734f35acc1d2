package perfchan

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// outbox queues events and losses for the receivers of a [PerfBuffer]. With it, a slow receiver
// does not stop the reading of rings, and a slow receiver of losses does not hold up events.
type outbox struct {
	limit   int          // of bytes
	waiting atomic.Int64 // events that have been put and not sent
	// the events of the reader's batch from the first for which the channel had no room
	rest [][]byte

	mu      sync.Mutex
	changed sync.Cond
	queue   [][]byte
	bytes   int    // of waiting events
	lost    uint64 // events that the kernel has given up, and nobody has been sent yet
	ended   bool   // nothing more comes
	stopped bool   // nothing more is to be sent
}

// eventCost is roughly the memory that an event takes besides its payload.
const eventCost = 64

func newOutbox(limit int) *outbox {
	b := &outbox{limit: limit}
	b.changed.L = &b.mu
	return b
}

// send sends an event if it need not wait and no earlier events are queued. Otherwise put queues
// it.
func (b *outbox) send(to chan<- []byte, data []byte) {
	if len(b.rest) == 0 && b.waiting.Load() == 0 {
		select {
		case to <- data:
			return
		default:
		}
	}
	b.rest = append(b.rest, data)
}

// put ends a batch: it queues the events that send could not send, and waits for room in the queue.
// It returns false when stopped.
func (b *outbox) put() bool {
	events := b.rest
	if len(events) == 0 {
		return true
	}
	b.rest = events[:0]
	defer clear(events) // they are the receiver's
	b.waiting.Add(int64(len(events)))
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes > b.limit && !b.stopped { // any batch fits an empty box
		b.changed.Wait()
	}
	if len(b.queue) == 0 {
		b.changed.Broadcast()
	}
	b.queue = append(b.queue, events...)
	for _, data := range events {
		b.bytes += len(data) + eventCost
	}
	return !b.stopped
}

func (b *outbox) putLost(n uint64) {
	b.change(func() { b.lost += n })
}

// end announces that put will not be called again; the queued events are still sent.
func (b *outbox) end() { b.change(func() { b.ended = true }) }

// stop has put wait no more: nothing more is to be sent. The senders' context ends them.
func (b *outbox) stop() { b.change(func() { b.stopped = true }) }

func (b *outbox) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.changed.Broadcast()
}

// sendEvents sends events until ctx ends, or all are sent and nothing more comes.
func (b *outbox) sendEvents(ctx context.Context, to chan<- []byte) {
	for {
		b.mu.Lock()
		for len(b.queue) == 0 && !b.ended {
			b.changed.Wait()
		}
		batch := b.queue
		b.queue = nil
		b.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		sent := 0
		for i, data := range batch {
			select {
			case to <- data: // in most cases, at half the price of waiting for either
			default:
				select {
				case to <- data:
				case <-ctx.Done():
					return
				}
			}
			b.waiting.Add(-1)
			sent += len(data) + eventCost
			if sent > b.limit/8 || i == len(batch)-1 {
				b.change(func() { b.bytes -= sent })
				sent = 0
			}
		}
	}
}

// sendLost does the same with counts of lost events. It adds up counts that arrive while nobody
// receives, and leaves counts still unsent when ctx ends to sendRest.
func (b *outbox) sendLost(ctx context.Context, to chan<- uint64) {
	for {
		b.mu.Lock()
		for b.lost == 0 && !b.ended {
			b.changed.Wait()
		}
		n := b.lost
		b.lost = 0
		b.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case to <- n:
		case <-ctx.Done():
			b.putLost(n)
			return
		}
	}
}

// restWait is how long sendRest waits for a receiver of the last losses if their channel has no
// buffer.
const restWait = time.Second

// sendRest sends the losses left when sendLost has ended. If the channel has a buffer, it needs no
// receiver.
func (b *outbox) sendRest(to chan uint64) {
	n := b.lost
	if n == 0 {
		return
	}
	if cap(to) == 0 {
		select {
		case to <- n:
		case <-time.After(restWait):
		}
		return
	}
	for {
		select {
		case to <- n:
			return
		case before := <-to: // it is full: replace the unreceived count by the sum
			n += before
		}
	}
}
