package fleet

import (
	"cmp"
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
	log     *log             // of the last message that was taken; nil: it has never been heard of
	logs    map[string]*log
	order   []string // of logs: the one that began last is last
	gaps    uint64   // of what is missing
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
	at, found := slices.BinarySearchFunc(l.held, m, func(a, b *message) int { return cmp.Compare(a.Sequence, b.Sequence) })
	if m.Sequence < l.next || found {
		h.m.result.Duplicates++
		return
	}
	l.end = max(l.end, m.Sequence+1)
	l.held = slices.Insert(l.held, at, m) // one that has to publish again may do so out of order
	h.become(live)
	h.takeHeld(l)
}

// takeHeld takes the held messages whose turn has come.
func (h *host) takeHeld(l *log) {
	for len(l.held) > 0 && l.held[0].Sequence == l.next {
		m := l.held[0]
		l.held[0] = nil // for the garbage collector
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
		h.head(l, m, m.data, nil)
		return
	}
	h.compare(l, m)
	if l.headed != m.Log { // we come in where its head has passed
		data, err := h.m.heads(m)
		if err != nil {
			err = fmt.Errorf("the head of log %s: %w", m.Log, err)
		}
		h.head(l, m, data, err)
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
	h.log, h.current = l, l.live
	l.boot, l.mark, l.missing = m.Boot, m.Through, ""
	if m.End {
		h.state = ended
	}
	h.become(h.state)
}

// refuse reports records that cannot be read.
func (h *host) refuse(m *message, err error) {
	h.m.result.Malformed++
	h.gap(Malformed, fmt.Sprintf("message %d of log %s: %v", m.Sequence, m.Log, err), uint64(m.wall(m.Since)), nil)
}

// head takes a log's head, or why it could not be had. Without one its records cannot be read.
func (h *host) head(l *log, m *message, data []byte, err error) {
	blind := l.headed == m.Log && l.live == nil
	if l.headed != m.Log {
		l.live, l.headed, l.blind = nil, m.Log, max(h.floor, m.wall(m.Since))
	}
	if err == nil {
		err = h.open(l, data)
	}
	if err != nil {
		h.refuse(m, err)
	} else if blind {
		h.current = l.live
		h.become(h.state)
		h.gap(Malformed, "what came before the head of log "+m.Log, uint64(l.blind), nil)
	}
}

// open has a log's records be read by a recording of the host that has such events, or by a new one.
func (h *host) open(l *log, head []byte) error {
	for _, known := range h.lives {
		if err := known.Head(head); err == nil {
			l.live = known
			return nil
		} else if !errors.Is(err, perfdata.ErrOtherEvents) {
			return err
		}
	}
	fresh := perfdata.NewLive(h.name)
	if err := fresh.Head(head); err != nil {
		return err
	}
	events := h.events + len(fresh.Events())
	if events > maxEvents {
		return fmt.Errorf("its recordings have more than %d events", maxEvents)
	}
	l.live, h.lives, h.events = fresh, append(h.lives, fresh), events
	if h.current == nil {
		h.current = fresh
	}
	h.become(h.state)
	h.m.err = errors.Join(h.m.err, h.m.admit(h.name, fresh))
	return nil
}

// compare compares a message with what is known of the host: something may be missing between, or
// two may say that they are the host.
func (h *host) compare(l *log, m *message) {
	began := m.wall(m.Since)
	if h.log == nil {
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
	h.giveUp(h.m.o.Dead)
	if waits := h.state == live || h.state == awaited; !waits || h.m.now.Sub(h.heard) < h.m.o.Dead {
		return
	}
	h.giveUp(0)
	if h.log != nil { // before others go on
		h.gap(HostSilent, "its events may come late", uint64(h.floor), nil)
	} else {
		h.m.tell(h.name, HostSilent, "nothing has come of it")
	}
	h.become(silent)
}

// giveUp gives up waiting for messages before those that have waited for so long.
func (h *host) giveUp(age time.Duration) {
	for _, id := range h.order {
		h.skip(h.logs[id], age)
	}
}

// skip takes messages that have been held for so long, though those before them are missing.
func (h *host) skip(l *log, age time.Duration) {
	for len(l.held) > 0 && h.m.now.Sub(l.held[0].received) >= age {
		first := l.held[0].Sequence
		l.missing, l.next = missing(l.next, first-1), first
		h.takeHeld(l)
	}
}

// justBehind is in ns: what is that far behind an event is not too late when that has been delivered.
const justBehind = 2

// gap puts a gap before a message or, without one, where the host's events have got to.
func (h *host) gap(reason, detail string, after uint64, before *message) {
	if h.current == nil || h.log == nil && before == nil {
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
