package fleet

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// Defaults of ReadOptions.
const (
	DefaultDead   = 5 * time.Second
	DefaultBuffer = 1_000_000
)

// patience is how many times Dead events wait for a host before this is reported.
const patience = 2

// maxAhead is by how much a host's clock may be ahead of the server's. Beyond that it is wrong, and
// would hold its events back for as long.
const maxAhead = time.Minute

// settle is how long nothing is delivered at the start, so that hosts that are alive have been heard
// of: idle ones send a message each second.
const settle = 1500 * time.Millisecond

// look is how often all hosts are looked at, and looks after how many messages.
const (
	look  = 50 * time.Millisecond
	looks = 64
)

// merger decides for which hosts' recordings the others wait, and finds what is missing in them. The
// stream of their readers is what puts the events in order. It is not for concurrent use.
//
// Times that it is given are of any one clock that does not go back. The messages' time stamps will
// do, so that a log of last week is merged as it was written, however fast it is read.
type merger struct {
	o     ReadOptions
	admit func(host string, l *perfdata.Live) error
	heads func(m *message) ([]byte, error) // the last head of a message's log

	self    *perfdata.Live // of no host: holds the others back at the start, and has gaps of hosts that have no recording
	hosts   map[string]*host
	all     []*host // in the order in which they came
	settled bool
	ready   chan struct{} // closed when it is
	full    bool          // more is held back than may be: nobody is waited for
	began   time.Time
	checked time.Time // when all hosts were checked last
	now     time.Time
	turn    int            // messages since the last look
	held    int            // events that were held back then
	blocked bool           // and waited for a host
	behind  map[*host]bool // those were reported that events wait for, since nobody was last waited for
	untold  []string       // gaps of self that are still to come
	told    uint64         // the time of the latest
	result  Result
	err     error // of admit
}

func newMerger(o ReadOptions, began time.Time, admit func(string, *perfdata.Live) error, heads func(*message) ([]byte, error)) (*merger, error) {
	m := &merger{o: o, admit: admit, heads: heads, self: perfdata.NewLive("fleet"), hosts: map[string]*host{}, ready: make(chan struct{}), behind: map[*host]bool{}}
	m.resume(began)
	m.result.Gaps = map[string]uint64{}
	rec, err := perfdata.NewRecorder(io.Discard, perfdata.Options{Events: []perfdata.EventInfo{{Name: "fleet"}}})
	if err == nil {
		err = m.self.Head(rec.Head())
	}
	if err == nil {
		err = admit("", m.self)
	}
	for _, name := range o.Hosts {
		m.host(name).become(awaited)
	}
	return m, err
}

// feed takes a message, which was checked and is kept.
func (m *merger) feed(msg *message, received time.Time) {
	m.tick(received)
	h := m.host(msg.Host)
	h.heard, msg.received = m.now, m.now
	h.feed(msg)
}

// malformed reports a message that could not be read, of the host that its subject names.
func (m *merger) malformed(name, why string, received time.Time) {
	m.tick(received)
	m.result.Malformed++
	h := m.hosts[name]
	if h == nil {
		m.tell(name, Malformed, why)
		return
	}
	h.heard = m.now
	h.gap(Malformed, why, 0, nil)
}

// advance decides what can be decided now, when all that came before now has been fed.
func (m *merger) advance(now time.Time) {
	m.tick(now)
	m.release(false)
	if m.turn++; m.turn >= looks || m.now.Sub(m.checked) >= look {
		m.look()
	}
}

// look looks at all hosts.
func (m *merger) look() {
	m.turn, m.checked = 0, m.now
	if m.now.Sub(m.began) >= m.o.Dead {
		for _, h := range m.all {
			h.check()
		}
	}
	m.release(false)
	b := m.backlog()
	m.held, m.blocked = b.events, b.waits() || !m.settled
	m.limit()
	switch waited := m.now.Sub(b.received); {
	case !b.waits() || waited < patience*m.o.Dead:
		clear(m.behind)
	case !m.behind[b.host]: // not each time
		m.behind[b.host] = true
		detail := "nothing has come of it"
		if b.host.log != nil {
			detail = fmt.Sprintf("its clock, or what it sends, is %v behind", m.now.Sub(time.Unix(0, b.host.floor)).Round(time.Second))
		}
		m.tell(b.host.name, HostBehind, fmt.Sprintf("%s; events have waited for it for %v", detail, waited.Round(time.Second)))
	}
}

// release ends the wait at the start, when it is time or at once.
func (m *merger) release(atOnce bool) {
	early := func() bool {
		return m.now.Sub(m.began) < settle || slices.ContainsFunc(m.all, func(h *host) bool { return h.state == awaited })
	}
	if m.settled || !atOnce && early() {
		return
	}
	m.settled = true
	m.tellAll()
	m.self.Hold(false)
	close(m.ready)
}

// limit lets nobody be waited for while more is held back than may be.
func (m *merger) limit() {
	full := m.held > m.o.Buffer && m.blocked || m.full && m.held > m.o.Buffer/2
	if full == m.full {
		return
	}
	if m.full = full; full {
		m.tell("", HostBehind, fmt.Sprintf("%d events are held back: nobody is waited for until half of them are delivered", m.held))
		m.release(true)
	}
	for _, h := range m.all {
		h.become(h.state)
	}
}

// backlog is what is held back, and why.
type backlog struct {
	events   int
	next     uint64    // the earliest time of an event that is next; 0: there is none
	received time.Time // when that came
	host     *host     // that is waited for and has come least far; nil: there is none
	floor    uint64    // up to where it has come
}

// waits reports whether events wait for a host.
func (b backlog) waits() bool { return b.host != nil && b.floor < b.next }

func (m *merger) backlog() (b backlog) {
	for _, h := range m.all {
		for _, l := range h.logs {
			b.events += len(l.held)
		}
		for _, l := range h.lives {
			queued, next, received := l.Backlog()
			b.events += queued
			if next != 0 && (b.next == 0 || next < b.next) {
				b.next, b.received = next, received
			}
			if floor, hold := l.Through(); hold && (b.host == nil || floor < b.floor) {
				b.host, b.floor = h, floor
			}
		}
		if h.state == awaited && !m.settled {
			b.host, b.floor = h, 0
		}
	}
	return b
}

// resume says that nothing could be heard until now, of anyone: hosts get their time to be heard
// again. The clock may go back here if nothing has been fed yet.
func (m *merger) resume(now time.Time) { m.began, m.checked, m.now = now, now, now }

// end says that nothing more comes: what is held back is delivered.
func (m *merger) end() {
	for _, h := range m.all {
		h.giveUp(0)
		if h.state != silent {
			h.become(ended)
		}
		for _, l := range h.lives {
			l.End()
		}
	}
	m.release(true)
	m.self.End()
}

// ended says that hosts have been heard of, and all have ended in good order, also those that were
// waited for from the start.
func (m *merger) ended() bool {
	return len(m.all) > 0 && !slices.ContainsFunc(m.all, func(h *host) bool { return h.state != ended })
}

func (m *merger) tick(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
}

func (m *merger) host(name string) *host {
	h := m.hosts[name]
	if h == nil {
		h = &host{m: m, name: name, logs: map[string]*log{}}
		m.hosts[name] = h
		m.all = append(m.all, h)
	}
	return h
}

// tell delivers a gap at once, as it says nothing of a host's events: its place is where the order has
// got to, or late. At the start it waits as events do.
func (m *merger) tell(host, reason, detail string) {
	m.count(host, reason)
	if host != "" {
		detail = host + ": " + detail
	}
	m.untold = append(m.untold, reason+": "+detail)
	m.tellAll()
}

func (m *merger) tellAll() {
	if !m.settled {
		return // self has nothing but its watermark then, by which it holds up the others
	}
	for _, reason := range m.untold {
		at, b := uint64(m.now.UnixNano()), m.backlog() // up to where nothing is held back
		if b.next != 0 {
			at = min(at, b.next)
		}
		if b.host != nil {
			at = min(at, max(b.floor, 1)-1)
		}
		m.told = max(m.told, at)
		_ = m.self.Gap(perfdata.Gap{Reason: reason, Time: m.told}, m.now) // its reader is open, or the command has ended
	}
	m.untold = nil
}

func (m *merger) count(host, reason string) {
	m.result.Gaps[reason]++
	if h := m.hosts[host]; h != nil && Missing(reason) {
		h.gaps++
	}
}
