package fleet

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var seeds = flag.Int("seeds", 4, "how many fleets are simulated in each set-up")

// simulated is a fleet: what happens on its hosts, and how that gets here.
type simulated struct {
	*rand.Rand
	set      setup
	arrivals []arrival
	truth    map[string]int64 // of each event, by name: its true time
	sent     map[string]bool  // names of events that get here
	missing  []string         // gaps that must be told
	silences map[string]int   // how often each host is not heard of for long
	heard    map[string]time.Time
}

type setup struct {
	deaths   bool // hosts are silent for long, and come back
	drops    bool // messages are missing
	restarts bool // hosts do not record for a while, and some lose their spools
	disorder bool // messages come twice, and out of order
	clocks   bool // hosts are wrong about the time, within what they say
	buffer   int
	toEnd    bool // all end in good order
}

// arrival is a message that gets here.
type arrival struct {
	at time.Time
	m  *message
}

const span = 40 * time.Second

func simulate(seed uint64, set setup) *simulated {
	f := &simulated{Rand: rand.New(rand.NewPCG(seed, 1)), set: set, truth: map[string]int64{}, sent: map[string]bool{}, silences: map[string]int{}, heard: map[string]time.Time{}}
	for i := range 2 + f.IntN(5) {
		f.host(fmt.Sprintf("h%d", i))
	}
	slices.SortStableFunc(f.arrivals, func(a, b arrival) int { return a.at.Compare(b.at) })
	for name, heard := range f.heard {
		if !set.toEnd && f.arrivals[len(f.arrivals)-1].at.Sub(heard) >= DefaultDead {
			f.silences[name]++
		}
	}
	return f
}

// between returns a time between two.
func (f *simulated) between(low, high time.Duration) time.Duration {
	return low + time.Duration(f.Int64N(int64(high-low)))
}

// host has a host live through the span, and publishes its messages.
func (f *simulated) host(name string) {
	var (
		booted       = epoch.Add(-f.between(time.Hour, 1000*time.Hour)) // its clock's zero: an offset that it knows
		eventful     = f.IntN(4) > 0
		now          = f.between(0, 100*time.Millisecond)
		events       time.Duration // up to which time all have been sent
		path         = f.between(time.Millisecond, 300*time.Millisecond)
		arrived      time.Time
		dies         = span
		number, logs = 0, 1
		log, prior   = name + "-1", ""
		first        = uint64(1)
		dropped      uint64
		mark         = uint64(epoch.Add(now).Sub(booted))
		told         []string // gaps, if nothing is missing before
		happen       = func(at time.Duration) string {
			number++
			id := fmt.Sprintf("%s/%d", name, number)
			f.truth[id] = epoch.Add(at).UnixNano()
			return id
		}
	)
	if f.set.deaths && f.IntN(2) == 0 {
		dies = f.between(span/4, span/2)
	}
	for sequence := uint64(1); now < span; sequence++ {
		if f.set.restarts && sequence > first+8 && now < span-10*time.Second && f.IntN(10) == 0 {
			logs++
			prior, log, first = log, fmt.Sprint(name, "-", logs), sequence
			told = []string{name + ": " + AgentDown}
			if f.IntN(2) == 0 {
				told = []string{fmt.Sprintf("%s: %s: log %s", name, SpoolLost, log)}
				prior, sequence, first, dropped = "", 1, 1, 0
			}
			happen(now) // and nobody is there
			events = now + f.between(time.Millisecond, 500*time.Millisecond)
			now = events + time.Millisecond
			mark = uint64(epoch.Add(events).Sub(booted))
		}
		m := &message{Host: name, Boot: "boot", place: place{Log: log, Sequence: sequence, First: first, Prior: prior}, Since: mark,
			Through: uint64(epoch.Add(now).Sub(booted)), Offset: booted.UnixNano()}
		if f.set.clocks {
			m.Error = uint64(5 * time.Millisecond)
			m.Offset += int64(f.between(-5*time.Millisecond, 5*time.Millisecond))
		}
		last := uint64(0)
		for n := f.IntN(8); eventful && n > 0; n-- {
			events += 10 + f.between(0, (now-events)/time.Duration(n)+1)
			if events > now {
				break
			}
			last = uint64(epoch.Add(events).Sub(booted))
			id := happen(events)
			m.data = sample(m.data, last, id)
		}
		if events = now; f.IntN(3) == 0 && last > 0 { // it knows of less than is true, just as well
			m.Through = max(m.Since, last, m.Through-uint64(f.between(0, time.Second)))
		}
		mark = m.Through
		// What came later is not before.
		if at := epoch.Add(now + path + f.between(0, 50*time.Millisecond)); at.After(arrived) {
			arrived = at
		}
		if now >= dies && dies < span {
			dies = span
			arrived = arrived.Add(f.between(2*DefaultDead, 3*DefaultDead)) // in the meantime its messages pile up
		}
		if f.set.toEnd && now+time.Second >= span {
			now, m.End = span, true
		}
		if f.set.drops && f.IntN(20) == 0 && sequence > 1 && !m.End && now < span-10*time.Second {
			dropped++
		} else {
			f.send(m, arrived)
			if dropped > 0 {
				told = []string{name + ": " + MissingMessages + ": " + missing(sequence-dropped, sequence-1)}
			}
			f.missing = append(f.missing, told...)
			dropped, told = 0, nil
		}
		now += f.between(10*time.Millisecond, time.Second)
	}
}

func (f *simulated) send(m *message, at time.Time) {
	for _, id := range strings.FieldsFunc(string(m.data), func(r rune) bool { return r < ' ' || r > '~' }) {
		if _, ok := f.truth[id]; ok {
			f.sent[id] = true
		}
	}
	if before := f.heard[m.Host]; !before.IsZero() && at.Sub(before) > DefaultDead {
		f.silences[m.Host]++
	}
	f.heard[m.Host] = at
	if f.set.disorder && m.Sequence > 1 && f.IntN(10) == 0 {
		at = at.Add(f.between(0, time.Second))
	}
	f.arrivals = append(f.arrivals, arrival{at, m})
	for f.set.disorder && f.IntN(10) == 0 {
		again := *m
		f.arrivals = append(f.arrivals, arrival{at.Add(f.between(0, 10*time.Second)), &again})
	}
}

// Whatever happens on the way, what comes out is in order, but for what is late; every event that
// gets here comes out once, and gaps are told where messages are missing, and where hosts are silent,
// and nowhere else.
func TestSimulation(t *testing.T) {
	for name, set := range map[string]setup{
		"calm": {}, "calm to the end": {toEnd: true}, "wrong clocks": {clocks: true}, "disorder": {disorder: true},
		"missing": {drops: true, toEnd: true}, "missing and disorder": {drops: true, disorder: true}, "deaths": {deaths: true},
		"restarts": {restarts: true}, "restarts and disorder": {restarts: true, disorder: true},
		"all": {deaths: true, drops: true, restarts: true, disorder: true, clocks: true}, "little memory": {deaths: true, drops: true, buffer: 20},
	} {
		for seed := range uint64(*seeds) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { simulate(seed, set).run(t) })
			})
		}
	}
}

// run merges what gets here of a fleet, and checks what comes out.
func (f *simulated) run(t *testing.T) {
	m := newMerged(t, ReadOptions{Buffer: f.set.buffer})
	m.resume(f.arrivals[0].at)
	var out []perfbuf.Record
	tick := f.arrivals[0].at
	for i, a := range f.arrivals {
		for ; tick.Before(a.at); tick = tick.Add(look) {
			m.advance(tick)
		}
		m.merger.feed(a.m, a.at)
		if m.advance(a.at); i%20 == 0 || f.set.buffer > 0 {
			out = append(out, m.read()...)
		}
	}
	m.advance(tick)
	out = append(out, m.read()...)
	early := len(out)
	m.end()
	out = append(out, m.read()...)

	last := uint64(0)
	seen, silences := map[string]bool{}, map[string]int{}
	holes := map[string][]perfbuf.Record{}
	var gaps []string
	for i, r := range out {
		if strings.HasPrefix(r.Reason, HostBehind) {
			require.True(t, f.set.buffer > 0 || f.set.disorder, "what comes again keeps a host from being silent")
			continue
		}
		require.True(t, r.Late || r.Time >= last, "out of order: %v", r)
		// Another spool's log may come before the last messages of the former one.
		require.True(t, !r.Late || f.set.deaths || f.set.buffer > 0 || f.set.restarts && f.set.disorder || i >= early, "late: %v", r)
		last = max(last, r.Time)
		switch {
		case strings.HasPrefix(r.Reason, HostSilent):
			silences[r.Source]++
			continue
		case r.Kind == perfbuf.KindLost:
			gaps = append(gaps, r.Source+": "+r.Reason)
			holes[r.Source] = append(holes[r.Source], r)
			continue
		}
		id := text(perfbuf.Record{Data: r.Data, Kind: r.Kind})
		require.True(t, strings.HasPrefix(id, r.Source+"/") && !seen[id], "it is another host's, or came twice: %s", id)
		seen[id] = true
		off := max(int64(r.Time)-f.truth[id], f.truth[id]-int64(r.Time))
		require.LessOrEqual(t, uint64(off), m.lives[r.Source].Error(r.Time)+justBehind, "%s is not where it is said to be", id)
	}
	const wrong = int64(20 * time.Millisecond) // more than clocks are
	for id, at := range f.truth {
		host, _, _ := strings.Cut(id, "/")
		h := m.known(nil)[host]
		known := at >= h.From.UnixNano()+wrong && at < h.To.UnixNano()-wrong
		require.True(t, seen[id] || !known || slices.ContainsFunc(holes[host], func(r perfbuf.Record) bool {
			return at >= int64(r.LostAfter)-wrong && at <= int64(r.Time)+wrong
		}), "it is missing where all is known: %s", id)
	}
	require.Equal(t, f.sent, seen)
	require.ElementsMatch(t, f.missing, gaps)
	if !f.set.disorder && f.set.buffer == 0 { // else a host may be heard of by what comes again
		require.Equal(t, f.silences, silences)
	}
}
