// Package tail merges what a fleet's hosts have published into one stream, in the order of
// wall-clock time.
//
// merge.go and host.go are the order, without NATS and without a clock of their own; tail.go reads
// JetStream.
package tail

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// patience is how long events wait for a host before this is reported: longer than for a missing
// batch.
const patience = 2 * DefaultDead

// Defaults of MergeOptions.
const (
	DefaultDead   = 5 * time.Second
	DefaultBuffer = 1_000_000
)

// MergeOptions says how a merger waits.
type MergeOptions struct {
	Dead   time.Duration // how long others wait for a host of which nothing comes, and for a batch that is missing (default 5s)
	Buffer int           // how many events are held back at most (default 1,000,000)
	Hosts  []string      // waited for from the start, as if they had been heard of
	Settle time.Duration // how long nothing is delivered at the start, so that hosts that are alive have been heard of
}

// merger puts hosts' batches in the order of their events' wall-clock times. An event is delivered
// once no host that is alive can send an older one: each batch says up to which time (its
// watermark) its host has sent everything. It is not for concurrent use.
//
// Times that it is given are of any one clock that does not go back. The messages' time stamps will
// do, so that a log of last week is merged as it was written, however fast it is read.
type merger struct {
	o        MergeOptions
	deliver  func(Item) error
	err      error // of deliver
	hosts    map[string]*host
	all      []*host         // in the order in which they came
	byEvent  ranking[*host]  // hosts that have events, by the oldest one
	byFloor  ranking[waited] // hosts that others wait for
	buffered int             // events in queues, and in batches that wait for others
	began    time.Time       // since when hosts could be heard
	checked  time.Time       // when all hosts were checked last
	now      time.Time
	last     int64 // the latest wall-clock time that was delivered
	waits    int   // counts the times that there was none
	stats    Stats
}

// newMerger returns a merger that calls deliver with the events in order, while Malformed, Advance
// or Drain is running, until it returns an error: see Err.
func newMerger(o MergeOptions, deliver func(Item) error) *merger {
	o.Dead, o.Buffer = cmp.Or(o.Dead, DefaultDead), cmp.Or(o.Buffer, DefaultBuffer)
	m := &merger{o: o, deliver: deliver, hosts: map[string]*host{}, last: math.MinInt64, waits: 1, stats: Stats{Gaps: map[wire.Gap_Reason]Gaps{}}}
	m.byEvent.before = func(a, b *host) bool { return earlier(a.next.Wall, a, b.next.Wall, b) }
	m.byFloor.before = func(a, b waited) bool { return earlier(a.floor, a.host, b.floor, b.host) }
	for _, name := range o.Hosts {
		m.host(name).become(awaited)
	}
	return m
}

// waited is a host that others wait for. Its floor may have risen since it was ranked.
type waited struct {
	host  *host
	floor int64
}

// earlier says whether one host's place in the order is before another's. At the same time they go
// by name.
func earlier(x int64, a *host, y int64, b *host) bool {
	return x < y || x == y && a.name < b.name
}

// Feed takes a batch, which must be valid and is kept. Advance then delivers.
func (m *merger) Feed(b *wire.Batch, received time.Time) {
	m.tick(received)
	h := m.host(b.Host)
	h.heard = m.now
	h.feed(b)
}

// Malformed reports a message that could not be read, of the host that its subject names.
func (m *merger) Malformed(name, why string, received time.Time) {
	m.tick(received)
	if h := m.hosts[name]; h != nil && h.last != nil {
		h.heard = m.now
		h.gap(wire.Gap_MALFORMED, why, 0, nil)
		return
	}
	m.tell(name, wire.Gap_MALFORMED, why, 0)
}

// Advance delivers what can be delivered now, when all that came before now has been fed.
func (m *merger) Advance(now time.Time) {
	m.tick(now)
	if m.now.Sub(m.began) >= m.o.Dead && m.now.Sub(m.checked) >= look {
		m.checked = m.now
		for _, h := range m.all {
			h.check()
		}
	}
	if m.now.Sub(m.began) >= m.o.Settle || m.buffered > m.o.Buffer {
		m.flush()
	}
	if wait := m.Waiting(); wait == nil {
		m.waits++
	} else if h := m.hosts[wait.Host]; h.told < m.waits { // not each time
		h.told = m.waits
		detail := "nothing has come of it"
		if wait.Behind != 0 {
			detail = fmt.Sprintf("its clock, or what it sends, is %v behind", wait.Behind.Round(time.Second))
		}
		m.tell(h.name, wire.Gap_HOST_BEHIND, detail, wait.Since.UnixNano())
	}
}

// Waiting returns the host that events have waited for too long, nil if there is none.
func (m *merger) Waiting() *Wait {
	if m.byEvent.Len() == 0 {
		return nil
	}
	since := m.byEvent.items[0].queue[0].since
	h := m.blocks()
	if h == nil || m.now.Sub(since) < patience {
		return nil
	}
	w := &Wait{Host: h.name, Since: since.UTC(), Events: m.buffered}
	if h.last != nil {
		w.Behind = m.now.Sub(time.Unix(0, h.floor))
	}
	return w
}

// Resume says that nothing could be heard until now, of anyone: hosts get their time to be heard
// again. The clock may go back here if nothing has been fed yet.
func (m *merger) Resume(now time.Time) {
	m.began, m.checked, m.now = now, now, now
}

// Drain delivers everything that is held back, when nothing more comes.
func (m *merger) Drain() {
	for _, h := range m.all {
		h.giveUp()
		if h.state != silent {
			h.become(ended)
		}
	}
	m.flush()
}

// Stats returns the counts so far.
func (m *merger) Stats() Stats {
	s := m.stats
	s.ByHost = map[string]Host{}
	for name, h := range m.hosts {
		of := Host{Events: h.events, Gaps: h.gaps, Silent: h.state == silent}
		if h.last != nil {
			of.From, of.To = time.Unix(0, h.from).UTC(), time.Unix(0, h.floor).UTC()
			if m.err != nil { // the rest was not delivered
				of.To = time.Unix(0, min(h.floor, m.last)).UTC()
			}
		}
		s.ByHost[name] = of
	}
	s.Gaps = maps.Clone(m.stats.Gaps)
	return s
}

// Ended says that hosts have been heard of, and all have ended in good order, also those that were
// waited for from the start.
func (m *merger) Ended() bool {
	for _, h := range m.hosts {
		if h.state != ended {
			return false
		}
	}
	return len(m.hosts) > 0
}

// Err is what deliver has returned. Nothing has been delivered, and counted, after that.
func (m *merger) Err() error { return m.err }

// Buffered is how many events are held back.
func (m *merger) Buffered() int { return m.buffered }

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
		h = &host{m: m, name: name, floor: math.MinInt64, logs: map[string]*log{}}
		m.hosts[name] = h
		m.all = append(m.all, h)
	}
	return h
}

// flush delivers, from the oldest event on, what cannot be preceded by anything that is still to
// come.
func (m *merger) flush() {
	for m.err == nil {
		full := m.buffered > m.o.Buffer
		if m.byEvent.Len() == 0 {
			if !full {
				return
			}
			for _, h := range m.all { // batches that wait for missing ones are all that is left
				h.giveUp()
			}
			continue
		}
		forced := m.blocks() != nil
		if forced && !full {
			return
		}
		m.pop(forced)
	}
}

// blocks returns the host that may still send what belongs before the oldest event; nil if none
// may.
func (m *merger) blocks() *host {
	first := m.byEvent.items[0]
	for m.byFloor.Len() > 0 {
		top := &m.byFloor.items[0]
		switch h := top.host; {
		case !h.holds(): // what was delivered, unproved, is beyond it now
			h.ranked = false
			m.byFloor.remove()
		case top.floor != h.floor:
			top.floor = h.floor
			m.byFloor.fix()
		case earlier(h.floor, h, first.next.Wall, first):
			return h
		default:
			return nil
		}
	}
	return nil
}

// pop delivers the oldest event.
func (m *merger) pop(forced bool) {
	h := m.byEvent.items[0]
	item := h.next
	item.Forced = forced
	item.Late = item.Wall < m.last
	m.last = max(m.last, item.Wall)
	m.buffered--
	if h.shift() {
		m.byEvent.fix()
	} else {
		m.byEvent.remove()
	}
	m.hand(item)
}

// tell delivers a gap at once, without a place in the order.
func (m *merger) tell(host string, reason wire.Gap_Reason, detail string, after int64) {
	m.hand(Item{Host: host, After: after, Event: &wire.Event{Kind: wire.Event_GAP, Detail: detail, Gap: &wire.Gap{Reason: reason}}})
}

// Missing says whether events may be missing in such a gap. In others they may come late.
func Missing(reason wire.Gap_Reason) bool {
	return reason != wire.Gap_HOST_SILENT && reason != wire.Gap_HOST_BEHIND
}

// hand counts an item and delivers it.
func (m *merger) hand(item Item) {
	if m.err != nil {
		return
	}
	if item.Late {
		m.stats.Late++
	}
	if item.Forced {
		m.stats.Forced++
	}
	if gap := item.Event.Gap; gap != nil {
		g := m.stats.Gaps[gap.Reason]
		g.Gaps++
		g.Events += gap.Count
		m.stats.Gaps[gap.Reason] = g
		if h := m.hosts[item.Host]; h != nil && Missing(gap.Reason) {
			h.gaps++
		}
	} else {
		m.stats.Events++
		m.hosts[item.Host].events++
		m.stats.MaxError = max(m.stats.MaxError, time.Duration(min(item.Error, math.MaxInt64)))
	}
	m.err = m.deliver(item)
}
