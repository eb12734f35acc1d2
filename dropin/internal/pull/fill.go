package pull

import (
	"context"
	"errors"
	"os"

	"github.com/ringfold/ringfold/perfbuf"
)

// A pass copies so many events ahead, and ends at the first that reaches a limit. The rest stays in
// the rings, where the kernel notices when there is no room.
const (
	mostEvents = 256
	mostBytes  = 64 << 10
)

// event is an event in the queue.
type event struct {
	cpu  *cpu
	size int // of the payload
	lost uint64
	err  error // instead of an event
}

// cpu counts the bytes of a CPU that wait.
type cpu struct {
	number int
	rings  []*perfbuf.Ring
	queued int
}

// fill waits for events, unless it knows of some, and copies them to the empty queue.
//
// A marker stands for the end of a flush or a deadline: all events from before it come first. Only
// fill asks for markers that count, one at a time, so the next marker answers what was asked.
func (q *Queue) fill() error {
	var ask error
	if !q.more {
		ask = q.stream.Wait(q.context())
		if ask != nil && !errors.Is(ask, os.ErrDeadlineExceeded) {
			return closedOr(ask)
		}
	}
	if q.asked == nil {
		if q.flush.Swap(false) {
			ask = ErrFlushed
		}
		if q.asked = ask; ask != nil {
			if err := q.stream.Flush(); err != nil {
				return closedOr(err)
			}
		}
	}
	q.events, q.next, q.data, q.start, q.more = q.events[:0], 0, q.data[:0], 0, false
	if err := q.stream.ForEach(q.take); err != nil {
		q.events = append(q.events, event{err: closedOr(err)})
	}
	return nil
}

func closedOr(err error) error {
	if err == os.ErrClosed {
		return errClosed
	}
	return err
}

// context returns the context of a wait. A marker that was asked for ends the wait soon, without a
// deadline.
func (q *Queue) context() context.Context {
	if q.deadline.IsZero() || q.asked != nil {
		return context.Background()
	}
	if q.ctx == nil {
		q.ctx, q.cancel = context.WithDeadlineCause(context.Background(), q.deadline, os.ErrDeadlineExceeded)
	}
	return q.ctx
}

// append copies an event to the queue. It ends the pass if that is full.
func (q *Queue) append(ev perfbuf.Event) error {
	switch ev.Kind() {
	case perfbuf.KindCorrupt:
		q.events = append(q.events, event{err: ev.Err()})
	case perfbuf.KindFlushed: // otherwise a Flush asked for it, to end a wait
		if q.asked != nil {
			q.events = append(q.events, event{err: q.asked})
			q.asked = nil
		}
	default:
		payload := ev.Bytes()
		c := q.cpu(ev.CPU())
		c.queued += len(payload)
		q.waiting.Add(int64(len(payload)))
		q.data = append(q.data, payload...)
		q.events = append(q.events, event{cpu: c, size: len(payload), lost: ev.Lost()})
	}
	if q.more = len(q.events) >= mostEvents || len(q.data) >= mostBytes; q.more {
		return perfbuf.ErrStop
	}
	return nil
}

func (q *Queue) cpu(number int) *cpu {
	c := q.cpus[number]
	if c == nil {
		c = &cpu{number: number}
		for _, r := range q.reader.Rings() {
			if r.CPU() == number {
				c.rings = append(c.rings, r)
			}
		}
		q.cpus[number] = c
	}
	return c
}
