package fleet

import (
	"fmt"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// maxLogs is how many logs of a host have their sequence numbers remembered. A Sink begins one
// whenever it starts.
const maxLogs = 256

// reordered is how many messages may come before one that was sent earlier: more than hosts have under
// way.
const reordered = 64

// log is the sequence of messages of a spool. A Sink that is opened again goes on with it under
// another id.
type log struct {
	id      string         // the latest
	from    uint64         // with which that begins
	next    uint64         // the sequence number that is due
	end     uint64         // that behind all that have come
	missing string         // what is missing before next, as it was given up
	boot    string         // of the last message that was taken; empty: none was
	mark    uint64         // its watermark
	began   int64          // since when there are messages
	twin    bool           // it was reported as one of two agents'
	headed  string         // the log whose head came last
	live    *perfdata.Live // that reads it; nil: its head cannot be read or had
	blind   int64          // since when, then, its messages cannot be read
	held    []*message     // that have come too early, by sequence number
}

// logOf returns the log of a message. One that does not go on with another begins where we come in.
// But if something is missing before that, and it has just begun, its first messages are still to
// come.
func (h *host) logOf(m *message) *log {
	l := h.logs[m.Log]
	if l != nil && (l.id == m.Log || m.Sequence < l.from) {
		return l // else its host goes on, in parallel to the one that started again
	}
	if l == nil {
		h.order = append(h.order, m.Log)
		l = h.logs[m.Prior]
		if l != nil && m.First >= l.end {
			l.id, l.from = m.Log, m.First
			h.logs[m.Log] = l
			return l
		}
	}
	l = &log{id: m.Log, from: m.First, next: m.Sequence}
	if h.log != nil && m.wall(m.Since) > h.floor && m.Sequence-m.First < reordered {
		l.next = m.First
	}
	h.logs[m.Log] = l
	if len(h.order) > maxLogs {
		h.forget(h.order[0])
	}
	return l
}

// forget forgets a host's log.
func (h *host) forget(id string) {
	if l := h.logs[id]; l.id == id { // else it is still there under its later id
		h.skip(l, 0)
	}
	delete(h.logs, id)
	h.order = h.order[1:]
}

func missing(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("message %d", first)
	}
	return fmt.Sprintf("messages %d to %d", first, last)
}
