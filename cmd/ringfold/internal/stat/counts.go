package stat

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/perfbuf"
)

// counts are those of an interval, or of all the time. docs/tool.md says what the keys mean.
type counts struct {
	Time     string          `json:"time"`            // now
	Elapsed  float64         `json:"elapsed_seconds"` // since the beginning; of a recording, that it has
	Interval float64         `json:"interval_seconds"`
	Mode     source.Mode     `json:"mode"`
	Events   uint64          `json:"events"`
	Bytes    uint64          `json:"bytes"`
	Lost     uint64          `json:"lost"`
	Shed     uint64          `json:"shed"`
	Filtered uint64          `json:"filtered"`
	Delay    *delay          `json:"delay"` // nil without events, without times, and of a recording
	Maps     []mapCounts     `json:"maps"`
	Command  *source.Command `json:"command,omitempty"`
}

// delay is how long events take from their output to being counted.
type delay struct {
	P50 float64 `json:"p50_seconds"`
	P99 float64 `json:"p99_seconds"`
	Max float64 `json:"max_seconds"`
}

// delayOf is nil if there are no values.
func delayOf(h *quantile.Histogram) *delay {
	if h.Len() == 0 {
		return nil
	}
	const s = 1e9
	return &delay{float64(h.Quantile(0.5)) / s, float64(h.Quantile(0.99)) / s, float64(h.Max()) / s}
}

type mapCounts struct {
	Map         string      `json:"map"`
	Host        string      `json:"host,omitempty"` // of a fleet
	ID          uint32      `json:"id"`             // 0 of a recording
	Wakeups     uint64      `json:"wakeups"`
	Late        uint64      `json:"late"`
	MaxLateness float64     `json:"max_lateness_seconds"` // so far
	CPUs        []cpuCounts `json:"cpus"`
}

// name is for people.
func (m mapCounts) name() string {
	if m.Host == "" {
		return m.Map
	}
	return m.Host + "/" + m.Map
}

type cpuCounts struct {
	CPU    int    `json:"cpu"` // -1: unknown, or all
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"` // of payloads
	Lost   uint64 `json:"lost"`
	Shed   uint64 `json:"shed"`
}

// place is where an event was output.
type place struct {
	from *source.Source
	cpu  int
}

type tally struct{ events, bytes, lost, shed uint64 }

// counter counts. Its methods may be called from several goroutines.
type counter struct {
	set   *source.Set
	began time.Time

	mu     sync.Mutex
	at     map[place]tally    // events and bytes that matched
	pass   uint64             // the time when the present pass began, 0 before its first event
	delays quantile.Histogram // since the latest interval
	all    quantile.Histogram
}

func newCounter(set *source.Set) *counter {
	return &counter{set: set, began: time.Now(), at: map[place]tally{}}
}

// event counts an event.
func (n *counter) event(ev source.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ev.Kind() == perfbuf.KindSample {
		p := place{ev.From, ev.CPU()}
		t := n.at[p]
		n.at[p] = tally{events: t.events + 1, bytes: t.bytes + uint64(len(ev.Bytes()))}
		n.delayed(ev)
	}
	return nil
}

// delayed counts how long an event has taken to get here: from its time to the beginning of the pass over
// the rings, or to now if it came in between.
func (n *counter) delayed(ev source.Event) {
	at := ev.Time()
	switch {
	case at == 0 || ev.From.File != "": // has no time, or one of another machine's clock
		return
	case ev.From.Live != nil && at < uint64(n.began.UnixNano()): // was stored before
		return
	case n.pass < at:
		n.pass = at + ev.Age()
	}
	n.delays.Add(n.pass - at)
	n.all.Add(n.pass - at)
}

// flush ends a pass.
func (n *counter) flush() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pass = 0
	return nil
}

// state is all counts since the beginning.
type state struct {
	at      time.Time
	tallies map[place]tally
	stats   map[*source.Source]perfbuf.Stats
}

func (n *counter) state() state {
	s := state{time.Now(), map[place]tally{}, map[*source.Source]perfbuf.Stats{}}
	n.mu.Lock()
	for p, t := range n.at {
		s.tallies[p] = t
	}
	n.mu.Unlock()
	for _, from := range n.set.All() {
		s.stats[from] = from.Stats()
		for _, r := range s.stats[from].Rings {
			p := place{from, r.CPU}
			t := s.tallies[p]
			t.lost, t.shed = t.lost+r.Lost, t.shed+r.Shed // several ring buffers may be of one CPU, or of none
			s.tallies[p] = t
		}
	}
	return s
}

// between compares two states.
func (n *counter) between(before, now state) *counts {
	c := &counts{Time: now.at.UTC().Format(time.RFC3339Nano), Mode: n.set.Mode(),
		Elapsed: now.at.Sub(n.began).Seconds(), Interval: now.at.Sub(before.at).Seconds()}
	for _, from := range n.set.All() {
		s, old := now.stats[from], before.stats[from]
		m := mapCounts{Map: from.Name, Host: from.Host, ID: from.ID, Wakeups: s.Wakes - old.Wakes, Late: s.Late - old.Late, MaxLateness: s.MaxLateness.Seconds()}
		for p, t := range now.tallies {
			if p.from != from {
				continue
			}
			was := before.tallies[p]
			one := cpuCounts{p.cpu, t.events - was.events, t.bytes - was.bytes, t.lost - min(was.lost, t.lost), t.shed - was.shed}
			m.CPUs = append(m.CPUs, one)
			c.Events, c.Bytes, c.Lost, c.Shed = c.Events+one.Events, c.Bytes+one.Bytes, c.Lost+one.Lost, c.Shed+one.Shed
		}
		slices.SortFunc(m.CPUs, func(a, b cpuCounts) int { return cmp.Compare(a.CPU, b.CPU) })
		c.Maps = append(c.Maps, m)
	}
	return c
}

// each hands the counts of each interval to f, until ctx ends. The first one begins with the counter,
// however late each is called.
func (n *counter) each(ctx context.Context, interval time.Duration, f func(*counts) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for before := (state{at: n.began}); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := n.state()
		c := n.between(before, now)
		n.mu.Lock()
		c.Delay = delayOf(&n.delays)
		n.delays = quantile.Histogram{}
		n.mu.Unlock()
		if err := f(c); err != nil {
			return err
		}
		before = now
	}
}

// summary is for a set that is closed.
func (n *counter) summary() *counts {
	c := n.between(state{at: n.began}, n.state())
	c.Delay, c.Filtered, c.Command = delayOf(&n.all), n.set.Filtered, n.set.Command
	if n.set.Recorded() {
		c.Elapsed = n.set.Elapsed().Seconds()
		c.Interval = c.Elapsed
	}
	return c
}
