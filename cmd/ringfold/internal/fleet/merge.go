package fleet

import (
	"fmt"
	"io"
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
	turn    int      // messages since the last look
	held    int      // events that were held back then
	blocked bool     // and waited for a host
	waits   int      // counts the looks at which nobody was waited for
	untold  []string // gaps of self that are still to come
	told    uint64   // the time of the latest
	result  Result
	err     error // of admit
}

func newMerger(o ReadOptions, admit func(string, *perfdata.Live) error, heads func(*message) ([]byte, error)) (*merger, error) {
	m := &merger{o: o, admit: admit, heads: heads, self: perfdata.NewLive("fleet"), hosts: map[string]*host{}, ready: make(chan struct{}), waits: 1}
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
	h.heard = m.now
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
	m.release()
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
		m.release()
	}
	m.held = m.backlog()
	wait := m.waiting()
	m.blocked = wait != nil || !m.settled
	m.limit()
	switch {
	case wait == nil || m.now.Sub(wait.since) < patience*m.o.Dead:
		m.waits++
	case wait.of.told < m.waits: // not each time
		wait.of.told = m.waits
		detail := "nothing has come of it"
		if wait.Behind != 0 {
			detail = fmt.Sprintf("its clock, or what it sends, is %v behind", wait.Behind.Round(time.Second))
		}
		detail += fmt.Sprintf("; events have waited for it for %v", m.now.Sub(wait.since).Round(time.Second))
		m.tell(wait.Host, HostBehind, detail)
	}
}

// release ends the wait at the start.
func (m *merger) release() {
	if m.settled {
		return
	}
	m.settled = m.now.Sub(m.began) >= settle
	for _, h := range m.all {
		m.settled = m.settled && h.state != awaited
	}
	m.settled = m.settled || m.full
	if m.settled {
		m.tellAll()
		m.self.Hold(false)
		close(m.ready)
	}
}

// limit lets nobody be waited for while more is held back than may be.
func (m *merger) limit() {
	full := m.held > m.o.Buffer && m.blocked || m.full && m.held > m.o.Buffer/2
	if full == m.full {
		return
	}
	if m.full = full; full {
		m.tell("", HostBehind, fmt.Sprintf("%d events are held back: nobody is waited for until half of them are delivered", m.held))
		m.release()
	}
	for _, h := range m.all {
		h.become(h.state)
	}
}

// backlog is how many events are held back.
func (m *merger) backlog() (n int) {
	for _, h := range m.all {
		for _, l := range h.lives {
			queued, _, _ := l.Backlog()
			n += queued
		}
		for _, l := range h.logs {
			n += len(l.held)
		}
	}
	return n
}

// waiting returns the host that events wait for, nil if there is none.
func (m *merger) waiting() *wait {
	var first uint64
	var w wait
	for _, h := range m.all {
		for _, l := range h.lives {
			if _, next, received := l.Backlog(); next != 0 && (first == 0 || next < first) {
				first, w.since = next, received
			}
		}
	}
	if first == 0 || m.full {
		return nil
	}
	floor := first
	for _, h := range m.all {
		switch {
		case h.state == awaited && !m.settled:
			w.of, floor = h, 0
		case h.state == live && h.current != nil:
			if at, hold := h.current.Through(); hold && at < floor {
				w.of, floor = h, at
			}
		}
	}
	if w.of == nil {
		return nil
	}
	w.Host, w.Since, w.Events = w.of.name, w.since.UTC(), m.held
	if w.of.last != nil {
		w.Behind = m.now.Sub(time.Unix(0, w.of.floor))
	}
	return &w
}

// resume says that nothing could be heard until now, of anyone: hosts get their time to be heard
// again. The clock may go back here if nothing has been fed yet.
func (m *merger) resume(now time.Time) { m.began, m.checked, m.now = now, now, now }

// end says that nothing more comes: what is held back is delivered.
func (m *merger) end() {
	if w := m.waiting(); w != nil && m.now.Sub(w.since) >= patience*m.o.Dead {
		m.result.Waiting = &w.Wait
	}
	for _, h := range m.all {
		h.giveUp()
		if h.state != silent {
			h.become(ended)
		}
		for _, l := range h.lives {
			l.End()
		}
	}
	m.settled = true
	m.tellAll()
	m.self.End()
}

// ended says that hosts have been heard of, and all have ended in good order, also those that were
// waited for from the start.
func (m *merger) ended() bool {
	for _, h := range m.hosts {
		if h.state != ended {
			return false
		}
	}
	return len(m.hosts) > 0
}

func (m *merger) tick(now time.Time) {
	if m.began.IsZero() {
		m.began = now
	}
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
		m.told = max(m.told, m.reached())
		_ = m.self.Gap(perfdata.Gap{Reason: reason, Time: m.told}, m.now) // its reader is open, or the command has ended
	}
	m.untold = nil
}

// reached is a time up to which nothing is held back.
func (m *merger) reached() uint64 {
	at := uint64(m.now.UnixNano())
	for _, h := range m.all {
		for _, l := range h.lives {
			if _, next, _ := l.Backlog(); next != 0 {
				at = min(at, next)
			}
			if floor, hold := l.Through(); hold {
				at = min(at, max(floor, 1)-1)
			}
		}
	}
	return at
}

func (m *merger) count(host, reason string) {
	m.result.Gaps[reason]++
	if h := m.hosts[host]; h != nil && Missing(reason) {
		h.gaps++
	}
}
