package fleet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// host is what a merger knows of a host.
type host struct {
	m       *merger
	name    string
	state   state
	heard   time.Time
	lives   []*perfdata.Live // its recordings: several if their events have changed
	events  int              // of these
	current *perfdata.Live   // that comes now
	from    int64            // since when all is known but what gaps say
	floor   int64            // up to which it has come, by the wall's clock
	placed  int64            // the time of the latest gap
	last    *message         // that was taken, without its data; nil: it has never been heard of
	log     *log             // of that one
	logs    map[string]*log
	order   []string // of logs: the one that began last is last
	gaps    uint64   // of what is missing
	told    int      // merger.waits when it was last reported as the host that others wait for
}

// maxEvents is how many events a host's recordings may have, of all kinds that it has had: each takes a
// ring of 128 KiB here.
const maxEvents = 256

type state int

const (
	silent  state = iota // nothing has come for too long, or ever: not waited for
	awaited              // never heard of, and waited for
	live                 // waited for
	ended                // has said so: not waited for
)

// feed takes a message, when it is its turn.
func (h *host) feed(m *message) {
	l := h.logOf(m)
	at, found := l.find(m.Sequence)
	if m.Sequence < l.next || found {
		h.m.result.Duplicates++
		return
	}
	l.end = max(l.end, m.Sequence+1)
	if m.Sequence > l.next {
		// One that has to publish again may do so out of order.
		l.held = slices.Insert(l.held, at, held{m, h.m.now})
		h.become(live)
		return
	}
	h.become(live)
	h.take(l, m)
	l.next++
	h.takeHeld(l)
}

// takeHeld takes the held messages whose turn has come.
func (h *host) takeHeld(l *log) {
	for len(l.held) > 0 && l.held[0].m.Sequence == l.next {
		m := l.held[0].m
		l.held[0] = held{} // for the garbage collector
		l.held = l.held[1:]
		h.take(l, m)
		l.next++
	}
}

// become changes the state, and whether others wait for the host.
func (h *host) become(s state) {
	h.state = s
	for _, l := range h.lives {
		l.Hold(l == h.current && s == live && !h.m.full)
	}
}

// take has a message be part of the host's recording.
func (h *host) take(l *log, m *message) {
	if m.Head {
		if h.head(l, m, m.data); l.headless == m.Log {
			l.headless, h.current = "", l.live
			h.become(h.state)
			h.gap(Malformed, "what came before the head of log "+m.Log, uint64(l.blind), nil)
		}
		return
	}
	h.compare(l, m)
	if l.headed != m.Log && l.headless != m.Log { // we come in where its head has passed
		if data, err := h.m.heads(m); err != nil {
			l.live, l.headless, l.blind = nil, m.Log, max(h.floor, m.wall(m.Since))
			h.refuse(m, fmt.Errorf("the head of log %s: %w", m.Log, err))
		} else {
			h.head(l, m, data)
		}
	}
	r := m.round()
	r.Latest, r.Received = uint64(h.m.now.Add(maxAhead).UnixNano()), h.m.now
	h.floor = max(h.floor, min(int64(r.Latest), m.wall(m.Through)))
	if l.live != nil {
		if err := l.live.Feed(m.data, r); err != nil {
			h.refuse(m, err)
			_ = l.live.Feed(nil, r) // its watermark counts
		}
	}
	h.last, h.log = m, l
	m.data = nil
	l.boot, l.mark, l.missing = m.Boot, m.Through, ""
	if m.End {
		h.state = ended
	}
	h.current = l.live
	h.become(h.state)
}

// refuse reports records that cannot be read.
func (h *host) refuse(m *message, err error) {
	h.m.result.Malformed++
	h.gap(Malformed, fmt.Sprintf("message %d of log %s: %v", m.Sequence, m.Log, err), uint64(m.wall(m.Since)), nil)
}

// head has a log's records be read by a recording of the host that has such events, or by a new one.
func (h *host) head(l *log, m *message, data []byte) {
	l.headed = m.Log
	for _, known := range h.lives {
		err := known.Head(data)
		if err == nil {
			l.live = known
			return
		} else if !errors.Is(err, perfdata.ErrOtherEvents) {
			h.refuse(m, err)
			return
		}
	}
	fresh := perfdata.NewLive(h.name)
	if err := fresh.Head(data); err != nil {
		h.refuse(m, err)
		return
	}
	if h.events += len(fresh.Events()); h.events > maxEvents {
		h.events -= len(fresh.Events())
		h.refuse(m, fmt.Errorf("its recordings have more than %d events", maxEvents))
		return
	}
	l.live, h.lives = fresh, append(h.lives, fresh)
	if h.current == nil {
		h.current = fresh
	}
	h.become(h.state)
	h.m.err = errors.Join(h.m.err, h.m.admit(h.name, fresh))
}

// compare compares a message with what is known of the host: something may be missing between, or
// two may say that they are the host.
func (h *host) compare(l *log, m *message) {
	began := m.wall(m.Since)
	if h.last == nil {
		h.from, l.began = began, began
		return
	}
	known, reason, detail := l, AgentDown, ""
	switch {
	case l.missing != "":
		reason, detail = MissingMessages, l.missing
	case l.boot == "":
		known, reason, detail = h.log, SpoolLost, "log "+m.Log
	}
	if l.missing != "" || known.boot != m.Boot || known.mark < m.Since {
		h.gap(reason, detail, uint64(h.floor), m)
	}
	if l.boot == "" {
		l.began = began
	} else if l.began <= h.log.began && l != h.log && m.wall(m.Through) > h.log.began && !(l.twin && h.log.twin) {
		l.twin, h.log.twin = true, true
		h.gap(TwoAgents, fmt.Sprintf("logs %s and %s", h.log.id, l.id), uint64(h.log.began), m)
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
	if h.last != nil { // before others go on
		h.gap(HostSilent, "its events may come late", uint64(h.floor), nil)
	} else {
		h.m.tell(h.name, HostSilent, "nothing has come of it")
	}
	h.become(silent)
}

// giveUp gives up waiting for any message.
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

// skip takes the first message that is held, though those before it are missing, and those that
// follow it.
func (h *host) skip(l *log) {
	first := l.held[0].m.Sequence
	l.missing = missing(l.next, first-1)
	l.next = first
	h.takeHeld(l)
}

// justBehind is in ns: what is that far behind an event is not too late when that has been delivered.
const justBehind = 2

// gap puts a gap before a message or, without one, where the host's events have got to.
func (h *host) gap(reason, detail string, after uint64, before *message) {
	if h.current == nil || h.last == nil && before == nil {
		h.m.tell(h.name, reason, detail)
		return
	}
	h.m.count(h.name, reason)
	if detail != "" {
		reason += ": " + detail
	}
	g := perfdata.Gap{Reason: reason, After: after, Time: uint64(max(h.floor, h.placed)) + justBehind}
	if before != nil { // what happened while the recording began is behind it, too
		g.Time = max(g.Time, uint64(max(0, before.wall(min(before.Since, firstTime(before.data))))))
	}
	h.placed = int64(g.Time)
	_ = h.current.Gap(g, h.m.now) // its reader is open, or the command has ended
}
