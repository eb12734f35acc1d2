package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	id      string // the latest
	from    uint64 // with which that begins
	next    uint64 // the sequence number that is due
	end     uint64 // that behind all that have come
	missing string // what is missing before next, as it was given up
	boot    string // of the last message that was taken; empty: none was
	mark    uint64 // its watermark
	began   int64  // since when there are messages
	twin    bool   // it was reported as one of two agents'
	headed  string // the log whose head was read last, for live
	live    *perfdata.Live
	// The log whose head could not be had, if it is that one, and since when its messages cannot be read.
	headless string
	blind    int64

	held []held // messages that have come too early, by sequence number
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
	if h.last != nil && m.wall(m.Since) > h.floor && m.Sequence-m.First < reordered {
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
		h.skipAll(l)
	}
	delete(h.logs, id)
	h.order = h.order[1:]
}

// held is a message that waits for an earlier one.
type held struct {
	m     *message
	since time.Time
}

// find returns where a sequence number belongs among the held messages, and whether it is there.
func (l *log) find(sequence uint64) (at int, found bool) {
	return slices.BinarySearchFunc(l.held, sequence, func(h held, sequence uint64) int { return cmp.Compare(h.m.Sequence, sequence) })
}

func missing(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("message %d", first)
	}
	return fmt.Sprintf("messages %d to %d", first, last)
}
