package tail

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// maxLogs is how many logs of a host have their sequence numbers remembered. An agent begins one
// whenever it starts.
const maxLogs = 256

// reordered is how many batches may come before one that was sent earlier: more than agents have
// under way.
const reordered = 64

// log is the sequence of batches of a spool. An agent that is started again goes on with it under
// another id.
type log struct {
	id      string // the latest
	from    uint64 // with which that begins
	next    uint64 // the sequence number that is due
	end     uint64 // that behind all that have come
	missing string // what is missing before next, as it was given up
	boot    string // of the last batch that was taken; empty: none was
	mark    uint64 // its watermark
	began   int64  // since when there are batches
	twin    bool   // it was reported as one of two agents'

	held []held // batches that have come too early, by sequence number
}

// logOf returns the log of a batch. One that does not go on with another begins where we come in.
// But if something is missing before that, and it has just begun, its first batches are still to
// come.
func (h *host) logOf(b *wire.Batch) *log {
	l := h.logs[b.LogId]
	if l != nil && (l.id == b.LogId || b.Sequence < l.from) {
		return l // else its agent goes on, in parallel to the one that started again
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
	l = &log{id: b.LogId, from: b.First, next: b.Sequence}
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

// held is a batch that waits for an earlier one.
type held struct {
	b     *wire.Batch
	since time.Time
}

// find returns where a sequence number belongs among the held batches, and whether it is there.
func (l *log) find(sequence uint64) (at int, found bool) {
	return slices.BinarySearchFunc(l.held, sequence, func(h held, sequence uint64) int { return cmp.Compare(h.b.Sequence, sequence) })
}

func missing(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("batch %d", first)
	}
	return fmt.Sprintf("batches %d to %d", first, last)
}
