package tail

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// host is what a merger knows of a host, and holds of it.
type host struct {
	m      *merger
	name   string
	state  state
	heard  time.Time
	from   int64       // since when all is known but what gaps say
	floor  int64       // nothing of it that comes has an earlier wall-clock time
	last   *wire.Batch // that was taken; nil: it has never been heard of
	log    *log        // of that one
	logs   map[string]*log
	order  []string // of logs: the one that began last is last
	queue  []entry
	at     int  // index of the next event in queue[0]
	next   Item // that event
	ranked bool // it is in merger.byFloor
	events uint64
	gaps   uint64 // of what is missing
	told   int    // merger.waits when it was last reported as the host that others wait for
}

type state int

const (
	silent  state = iota // nothing has come for too long, or ever: not waited for
	awaited              // never heard of, and waited for
	live                 // waited for
	ended                // has said so: not waited for
)

// maxAhead is by how much a host's clock may be ahead of the broker's. Beyond that it is wrong, and
// would hold its events back for as long.
const maxAhead = time.Minute

// entry is a batch in the queue.
type entry struct {
	b     *wire.Batch
	floor int64     // no event is placed before this, not to overtake those of earlier batches when the clock is set back
	limit int64     // nor after this
	after int64     // of a gap: since when
	since time.Time // it is in the queue
}

// holds says that the host holds others up. One that has fallen behind what was delivered does not:
// all that it sends is late anyway, until it has caught up.
func (h *host) holds() bool {
	return h.state == awaited || h.state == live && h.floor >= h.m.last
}

// feed takes a batch, when it is its turn.
func (h *host) feed(b *wire.Batch) {
	l := h.logOf(b)
	at, found := l.find(b.Sequence)
	if b.Sequence < l.next || found {
		h.m.stats.Duplicates++
		return
	}
	l.end = max(l.end, b.Sequence+1)
	h.state = live
	if b.Sequence > l.next {
		// An agent that has to publish again may do so out of order.
		l.held = slices.Insert(l.held, at, held{b, h.m.now})
		h.m.buffered += len(b.Events)
		h.become(live)
		return
	}
	h.take(l, b)
	l.next++
	h.takeHeld(l)
}

// takeHeld takes the held batches whose turn has come.
func (h *host) takeHeld(l *log) {
	for len(l.held) > 0 && l.held[0].b.Sequence == l.next {
		b := l.held[0].b
		l.held[0] = held{} // for the garbage collector
		l.held = l.held[1:]
		h.m.buffered -= len(b.Events)
		h.take(l, b)
		l.next++
	}
}

// become changes the state, and whether others wait for the host.
func (h *host) become(s state) {
	if h.state = s; h.holds() && !h.ranked {
		h.ranked = true
		h.m.byFloor.add(waited{h, h.floor})
	}
}

// take puts a batch into the queue.
func (h *host) take(l *log, b *wire.Batch) {
	h.compare(l, b)
	limit := h.m.now.Add(maxAhead).UnixNano()
	e := entry{b: b, floor: h.floor, limit: limit}
	h.floor = max(h.floor, min(limit, wall(b.Watermark, b.WallOffset)))
	if n := len(b.Events); n > 0 {
		last, _ := e.wall(b.Events[n-1])
		h.floor = max(h.floor, last)
		h.push(e)
	}
	h.last, h.log = b, l
	l.boot, l.mark, l.missing = b.BootId, b.Watermark, ""
	if b.End {
		h.state = ended
	}
	h.become(h.state)
}

// compare compares a batch with what is known of the host: something may be missing between, or two
// agents may say that they are the host.
func (h *host) compare(l *log, b *wire.Batch) {
	began := wall(b.Since, b.WallOffset)
	if h.last == nil {
		h.from, l.began = began, began
		return
	}
	known, reason, detail := l, wire.Gap_AGENT_DOWN, ""
	switch {
	case l.missing != "":
		reason, detail = wire.Gap_MISSING_BATCHES, l.missing
	case l.boot == "":
		known, reason, detail = h.log, wire.Gap_SPOOL_LOST, "log "+l.id
	}
	if l.missing != "" || known.boot != b.BootId || known.mark < b.Since {
		h.gap(reason, detail, h.floor, b)
	}
	if l.boot == "" {
		l.began = began
	} else if l.began <= h.log.began && l != h.log && wall(b.Watermark, b.WallOffset) > h.log.began && !(l.twin && h.log.twin) {
		l.twin, h.log.twin = true, true
		h.gap(wire.Gap_TWO_AGENTS, fmt.Sprintf("logs %s and %s", h.log.id, l.id), h.log.began, b)
	}
}

// check gives up waiting for what has not come for too long.
func (h *host) check() {
	overdue := func(since time.Time) bool { return h.m.now.Sub(since) >= h.m.o.Dead }
	for _, key := range h.order {
		for l := h.logs[key]; len(l.held) > 0 && overdue(l.held[0].since); {
			h.skip(l)
		}
	}
	if waits := h.state == live || h.state == awaited; !waits || !overdue(h.heard) {
		return
	}
	h.giveUp()
	h.become(silent)
	if h.last != nil {
		h.gap(wire.Gap_HOST_SILENT, "", h.floor, nil)
	} else {
		h.m.tell(h.name, wire.Gap_HOST_SILENT, "", 0)
	}
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

// skip takes the first batch that is held, though those before it are missing, and those that
// follow it.
func (h *host) skip(l *log) {
	first := l.held[0].b.Sequence
	l.missing = missing(l.next, first-1)
	l.next = first
	h.takeHeld(l)
}

// gap puts a gap before a batch or, without one, where the host's events have got to.
func (h *host) gap(reason wire.Gap_Reason, detail string, after int64, before *wire.Batch) {
	b := &wire.Batch{Events: []*wire.Event{{Kind: wire.Event_GAP, Gap: &wire.Gap{Reason: reason}, Detail: detail}}}
	limit, like := h.floor, h.last
	if before != nil {
		limit, like = math.MaxInt64, before
		if b.BaseTime = before.Since; len(before.Events) > 0 { // what happened while the agent began is there, too
			b.BaseTime = min(b.BaseTime, before.BaseTime+before.Events[0].Delta)
		}
	} else if like != nil {
		b.BaseTime = like.Watermark
	}
	b.BootId, b.LogId, b.WallOffset, b.WallError = like.GetBootId(), like.GetLogId(), like.GetWallOffset(), like.GetWallError()
	h.push(entry{b: b, floor: h.floor, limit: min(limit, h.m.now.Add(maxAhead).UnixNano()), after: after})
}

func (h *host) push(e entry) {
	e.since = h.m.now
	h.queue = append(h.queue, e)
	h.m.buffered += len(e.b.Events)
	if len(h.queue) == 1 {
		h.place(0)
		h.m.byEvent.add(h)
	}
}

// shift goes on to the next event. It returns false if there is none.
func (h *host) shift() bool {
	if h.at+1 < len(h.queue[0].b.Events) {
		h.place(h.at + 1)
		return true
	}
	h.queue[0] = entry{} // for the garbage collector
	if h.queue = h.queue[1:]; len(h.queue) == 0 {
		h.next = Item{}
		return false
	}
	h.place(0)
	return true
}

// place makes an event of queue[0] the next one.
func (h *host) place(at int) {
	b, ev := h.queue[0].b, h.queue[0].b.Events[at]
	wall, off := h.queue[0].wall(ev)
	h.at = at
	h.next = Item{
		Host: h.name, BootID: b.BootId, LogID: b.LogId, Sequence: b.Sequence, Event: ev,
		Time: b.BaseTime + ev.Delta, Wall: wall, Error: off, After: h.queue[0].after,
	}
	if after := ev.Gap.GetAfter(); after != 0 {
		h.next.After = wall - int64(h.next.Time-after)
	}
}

// wall returns the wall-clock time of an event, and by how much it may be wrong.
func (e entry) wall(ev *wire.Event) (at int64, off uint64) {
	says := wall(e.b.BaseTime+ev.Delta, e.b.WallOffset)
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
