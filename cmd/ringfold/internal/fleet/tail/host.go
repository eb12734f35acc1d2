package tail

import (
	"math"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// host is what a Merger knows of a host, and holds of it.
type host struct {
	m      *Merger
	name   string
	state  state
	known  bool // a batch of it has come
	heard  time.Time
	floor  int64  // nothing of it that comes has an earlier wall-clock time
	mark   uint64 // the last watermark
	last   *wire.Batch
	logs   map[string]*log
	order  []string // of logs: the one that began last is last
	queue  []entry
	next   place         // the first event of queue
	ranks  [rankings]int // places in Merger.ranks, from 1 on; 0: it is not there
	due    time.Time     // no wait for it ends before
	events uint64
	told   int // Merger.waits when it was told of that others wait for it
}

type state int

const (
	silent  state = iota // nothing has come for too long, or ever: not waited for
	awaited              // never heard of, and waited for
	live                 // waited for
	ended                // has said so: not waited for
)

// maxLogs is how many logs of a host have their sequence numbers remembered. An agent begins one per boot and spool.
const maxLogs = 16

// maxAhead is by how much a host's clock may be ahead of the broker's. Beyond that it is wrong, and would hold its events back for as long.
const maxAhead = time.Minute

// entry is a batch in the queue.
type entry struct {
	b     *wire.Batch
	floor int64     // no event is placed before this, not to overtake those of earlier batches when the clock is set back
	limit int64     // nor after this
	since time.Time // it is in the queue
}

// place is the position in the stream of an event of queue[0].
type place struct {
	i     int // in its events
	wall  int64
	error uint64
}

// holds says that the host holds others up. One that has fallen behind what was delivered does not: all that it sends is late anyway,
// until it has caught up.
func (h *host) holds() bool {
	return h.state == awaited || h.state == live && h.floor >= h.m.last
}

// feed takes a batch, when it is its turn.
func (h *host) feed(b *wire.Batch, received time.Time) {
	l := h.log(b)
	if b.Sequence < l.next || l.held[b.Sequence].b != nil {
		h.m.stats.Duplicates++
		return
	}
	h.known, h.state = true, live
	if b.Sequence > l.next {
		// An agent that has to publish again may do so out of order.
		l.hold(b, h.m.now)
		h.m.buffered += len(b.Events)
		h.become(live)
		return
	}
	h.take(b, received)
	l.next++
	h.takeHeld(l)
}

func (h *host) takeHeld(l *log) {
	for b := l.release(); b != nil; b = l.release() {
		h.m.buffered -= len(b.Events)
		h.take(b, h.m.now)
		l.next++
	}
}

// become changes the state, and whether others wait for the host.
func (h *host) become(s state) {
	h.state = s
	h.m.ranks[byFloor].put(h, h.holds())
	if h.ranks[byDue] == 0 {
		h.due = time.Time{} // check finds out
		h.m.ranks[byDue].put(h, true)
	}
}

// log returns the log of a batch. A host's first one begins wherever we come in; others at their beginning.
func (h *host) log(b *wire.Batch) *log {
	key := b.BootId + "/" + b.LogId
	l := h.logs[key]
	if l == nil {
		l = &log{next: 1, held: map[uint64]held{}}
		if len(h.order) == 0 {
			l.next = b.Sequence
		}
		h.logs[key] = l
		h.order = append(h.order, key)
		if len(h.order) > maxLogs {
			h.skipAll(h.logs[h.order[0]])
			delete(h.logs, h.order[0])
			h.order = h.order[1:]
		}
	}
	return l
}

// take puts a batch into the queue.
func (h *host) take(b *wire.Batch, received time.Time) {
	limit := received.Add(maxAhead).UnixNano()
	e := entry{b: b, floor: h.floor, limit: limit}
	h.floor = max(h.floor, min(limit, wall(b.Watermark, b.WallOffset)))
	if n := len(b.Events); n > 0 {
		last, _ := e.at(n - 1)
		h.floor = max(h.floor, last)
		h.push(e)
	}
	h.last = b
	h.mark = b.Watermark
	if b.End {
		h.state = ended
	}
	h.become(h.state)
}

// check gives up waiting for what has not come for too long, and sees when the next wait may be over.
func (h *host) check() {
	h.due = time.Time{}
	overdue := func(since time.Time) bool {
		at := since.Add(h.m.o.Dead)
		if at.After(h.m.now) && (h.due.IsZero() || at.Before(h.due)) {
			h.due = at
		}
		return !at.After(h.m.now)
	}
	for _, key := range h.order {
		for l := h.logs[key]; len(l.held) > 0 && overdue(l.first().since); {
			h.skip(l)
		}
	}
	if waits := h.state == live || h.state == awaited; waits && overdue(h.heard) {
		h.giveUp()
		h.become(silent)
		gap := &wire.Event{Kind: wire.Event_GAP, Gap: &wire.Gap{Reason: wire.Gap_HOST_SILENT, After: h.mark}}
		if h.known {
			h.gap(gap)
		} else {
			h.m.hand(Item{Host: h.name, Event: gap})
		}
		h.due = time.Time{}
	}
	h.m.ranks[byDue].put(h, !h.due.IsZero())
}

// giveUp gives up waiting for any batch.
func (h *host) giveUp() {
	for _, key := range h.order {
		h.skipAll(h.logs[key])
	}
}

func (h *host) skipAll(l *log) {
	for len(l.held) > 0 {
		h.skip(l)
	}
}

// skip says that the batches before the first one that is held are missing, and takes that one, and those that follow it.
func (h *host) skip(l *log) {
	b := l.first().b
	at := b.Watermark
	if len(b.Events) > 0 {
		at = b.BaseTime + b.Events[0].Delta
	}
	gap := &wire.Gap{Reason: wire.Gap_MISSING_BATCHES}
	if h.last != nil && h.last.BootId == b.BootId && h.mark <= at {
		gap.After = h.mark
	}
	h.push(entry{b: &wire.Batch{Host: b.Host, BootId: b.BootId, LogId: b.LogId, BaseTime: at, WallOffset: b.WallOffset, WallError: b.WallError,
		Events: []*wire.Event{{Kind: wire.Event_GAP, Gap: gap, Detail: missing(l.next, b.Sequence-1)}}}, floor: h.floor, limit: h.m.now.Add(maxAhead).UnixNano()})
	l.next = b.Sequence
	h.takeHeld(l)
}

// gap puts a gap where the host's events have got to.
func (h *host) gap(ev *wire.Event) {
	b := &wire.Batch{Host: h.name, BaseTime: h.mark, Events: []*wire.Event{ev}}
	if h.last != nil {
		b.BootId, b.LogId, b.WallOffset, b.WallError = h.last.BootId, h.last.LogId, h.last.WallOffset, h.last.WallError
	}
	h.push(entry{b: b, floor: h.floor, limit: h.floor})
}

func (h *host) push(e entry) {
	e.since = h.m.now
	h.queue = append(h.queue, e)
	h.m.buffered += len(e.b.Events)
	if len(h.queue) == 1 {
		h.place(0)
		h.m.ranks[byEvent].put(h, true)
	}
}

// shift goes on to the next event, if there is one.
func (h *host) shift() bool {
	if i := h.next.i + 1; i < len(h.queue[0].b.Events) {
		h.place(i)
		return true
	}
	h.queue[0] = entry{} // for the garbage collector
	h.queue = h.queue[1:]
	if len(h.queue) == 0 {
		return false
	}
	h.place(0)
	return true
}

func (h *host) place(i int) {
	wall, off := h.queue[0].at(i)
	h.next = place{i, wall, off}
}

func (h *host) item() Item {
	b := h.queue[0].b
	ev := b.Events[h.next.i]
	i := Item{Host: h.name, BootID: b.BootId, LogID: b.LogId, Sequence: b.Sequence, Event: ev, Time: b.BaseTime + ev.Delta, Wall: h.next.wall, Error: h.next.error}
	if after := ev.Gap.GetAfter(); after != 0 {
		i.After = i.Wall - int64(i.Time-after)
	}
	return i
}

// at is the wall-clock time of an event, and by how much it may be wrong.
func (e entry) at(i int) (at int64, off uint64) {
	says := wall(e.b.BaseTime+e.b.Events[i].Delta, e.b.WallOffset)
	at = max(e.floor, min(says, e.limit))
	moved := uint64(at) - uint64(says)
	if at < says {
		moved = -moved
	}
	if off = e.b.WallError + moved; off < moved {
		off = math.MaxUint64
	}
	return at, off
}

// wall is a time of a host's CLOCK_MONOTONIC on the wall's clock.
func wall(t uint64, offset int64) int64 {
	at := int64(min(t, math.MaxInt64))
	if offset > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + offset
}
