package tail

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// maxLogs is how many logs of a host have their sequence numbers remembered. An agent begins one whenever it starts.
const maxLogs = 256

// reordered is how many batches may come before one that was sent earlier: more than agents have under way.
const reordered = 64

// log is the sequence of batches of a spool. An agent that is started again goes on with it under another id.
type log struct {
	id      string // the latest
	from    uint64 // with which that begins
	next    uint64 // the sequence number that is due
	end     uint64 // that behind all that have come
	missing string // what is missing before next, as it was given up
	boot    string // of the last batch that was taken; empty: none was
	mark    uint64 // its watermark
	began   int64  // since when there are batches
	twin    bool   // it was told of that another one is of a second agent

	held  map[uint64]held // those that have come too early
	order sequences       // of those
}

// logOf returns the log of a batch. One that does not go on with another begins where we come in. But if something is missing before
// that, and it has just begun, its first batches are still to come.
func (h *host) logOf(b *wire.Batch) *log {
	l := h.logs[b.LogId]
	if l != nil && (l.id == b.LogId || b.Sequence < l.from) {
		return l // else an agent goes on with it beside the one that has started again
	}
	if l == nil {
		h.order = append(h.order, b.LogId)
		l = h.logs[b.Prior]
		if l != nil && b.First >= l.end {
			l.id, l.from = b.LogId, b.First
			h.logs[b.LogId] = l
			return l
		}
	}
	l = &log{id: b.LogId, from: b.First, next: b.Sequence, held: map[uint64]held{}}
	if h.last != nil && wall(b.Since, b.WallOffset) > h.floor && b.Sequence-b.First < reordered {
		l.next = b.First
	}
	h.logs[b.LogId] = l
	if len(h.order) > maxLogs {
		h.forget(h.order[0])
	}
	return l
}

// forget forgets a host's log.
func (h *host) forget(id string) {
	if l := h.logs[id]; l.id == id { // else it is still there under its later id
		h.skipAll(l)
	}
	delete(h.logs, id)
	h.order = h.order[1:]
}

// held is a batch that waits for one before it, since it has come.
type held struct {
	b     *wire.Batch
	since time.Time
}

// sequences is a heap.
type sequences []uint64

func (s sequences) Len() int           { return len(s) }
func (s sequences) Less(i, j int) bool { return s[i] < s[j] }
func (s sequences) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sequences) Push(x any)        { *s = append(*s, x.(uint64)) }

func (s *sequences) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// hold keeps a batch until its turn has come.
func (l *log) hold(b *wire.Batch, now time.Time) {
	l.held[b.Sequence] = held{b, now}
	heap.Push(&l.order, b.Sequence)
}

// first is the first batch that is held, if one is.
func (l *log) first() held {
	if len(l.order) == 0 {
		return held{}
	}
	return l.held[l.order[0]]
}

// release gives back the first batch that is held, if it is its turn.
func (l *log) release() *wire.Batch {
	b := l.first().b
	if b == nil || b.Sequence != l.next {
		return nil
	}
	heap.Pop(&l.order)
	delete(l.held, b.Sequence)
	return b
}

func missing(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("batch %d", first)
	}
	return fmt.Sprintf("batches %d to %d", first, last)
}
