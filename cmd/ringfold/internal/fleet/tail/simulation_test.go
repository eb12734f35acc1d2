package tail

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var seeds = flag.Int("seeds", 20, "how many fleets are simulated in each set-up")

// fleet is a simulated fleet: what happens on its hosts, and how that gets here.
type fleet struct {
	*rand.Rand
	set      setup
	messages []message
	truth    map[string]int64 // of each event, by name: its true wall-clock time
	sent     map[string]bool  // names of events that get here
	missing  []string         // gaps that must be told: "host: batches 3 to 4"
	silences map[string]int   // how often each host is not heard of for long
	heard    map[string]time.Time
}

type setup struct {
	name      string
	deaths    bool // hosts are silent for long, and come back
	drops     bool // batches are missing
	restarts  bool // agents are down for a while, and some lose their spools
	disorder  bool // batches come twice, and out of order
	clocks    bool // hosts are wrong about the time, within what they say
	buffer    int
	endedWell bool
}

// message is a batch that gets here.
type message struct {
	at time.Time
	b  *wire.Batch
}

const (
	dead = 5 * time.Second
	span = 40 * time.Second
)

func simulate(seed uint64, set setup) *fleet {
	f := &fleet{Rand: rand.New(rand.NewPCG(seed, 1)), set: set, truth: map[string]int64{}, sent: map[string]bool{}, silences: map[string]int{}, heard: map[string]time.Time{}}
	for i := range 2 + f.IntN(5) {
		f.host(fmt.Sprintf("h%d", i))
	}
	slices.SortStableFunc(f.messages, func(a, b message) int { return a.at.Compare(b.at) })
	for name, heard := range f.heard {
		if !set.endedWell && f.messages[len(f.messages)-1].at.Sub(heard) >= dead {
			f.silences[name]++
		}
	}
	return f
}

// between returns a time between two.
func (f *fleet) between(low, high time.Duration) time.Duration {
	return low + time.Duration(f.Int64N(int64(high-low)))
}

// host has a host live through the span, and publishes its batches.
func (f *fleet) host(name string) {
	var (
		boot     = epoch.Add(-f.between(time.Hour, 1000*time.Hour)) // its clock's zero: an offset that it knows
		eventful = f.IntN(4) > 0
		now      = f.between(0, 100*time.Millisecond)
		events   time.Duration // up to which time all have been sent
		path     = f.between(time.Millisecond, 300*time.Millisecond)
		arrived  time.Time
		heard    time.Time
		dropped  = uint64(0)
		number   = 0
		dies     = span
		sequence uint64
		logs     = 1
		log      = name + " 1"
		first    = uint64(1)
		prior    string
		mark     = uint64(epoch.Add(now).Sub(boot))
		told     []string // gaps, if nothing is missing before
	)
	happen := func(at time.Duration) string {
		number++
		id := fmt.Sprintf("%s/%d", name, number)
		f.truth[id] = epoch.Add(at).UnixNano()
		return id
	}
	if f.set.deaths && f.IntN(2) == 0 {
		dies = f.between(span/4, span/2)
	}
	for sequence = 1; now < span; sequence++ {
		if f.set.restarts && sequence > first+8 && now < span-10*time.Second && f.IntN(10) == 0 {
			logs++
			prior, log, first = log, fmt.Sprint(name, " ", logs), sequence
			told = []string{name + ": "}
			if f.IntN(2) == 0 {
				told = []string{fmt.Sprintf("%s: log %s", name, log)}
				prior, sequence, first, dropped = "", 1, 1, 0
			}
			happen(now) // and nobody is there
			events = now + f.between(time.Millisecond, 500*time.Millisecond)
			now = events + time.Millisecond
			mark = uint64(epoch.Add(events).Sub(boot))
		}
		b := &wire.Batch{Host: name, BootId: "boot", LogId: log, Sequence: sequence, First: first, Prior: prior, Since: mark, WallOffset: boot.UnixNano(),
			Watermark: uint64(epoch.Add(now).Sub(boot))}
		if f.set.clocks {
			b.WallError = uint64(5 * time.Millisecond)
			b.WallOffset += int64(f.between(-5*time.Millisecond, 5*time.Millisecond))
		}
		for n := f.IntN(8); eventful && n > 0; n-- {
			happens := events + f.between(0, (now-events)/time.Duration(n)+1)
			if happens > now {
				break
			}
			events = happens
			ev := &wire.Event{Kind: wire.Event_EXEC, Comm: happen(happens), Delta: uint64(epoch.Add(happens).Sub(boot))}
			if len(b.Events) == 0 {
				b.BaseTime = ev.Delta
			}
			ev.Delta -= b.BaseTime
			b.Events = append(b.Events, ev)
		}
		if events = now; f.IntN(3) == 0 && len(b.Events) > 0 { // it knows of less than is true, just as well
			b.Watermark = max(b.BaseTime+b.Events[len(b.Events)-1].Delta, b.Watermark-uint64(f.between(0, 1000*time.Millisecond)))
		}
		mark = b.Watermark
		// What came later is not before.
		if at := epoch.Add(now + path + f.between(0, 50*time.Millisecond)); at.After(arrived) {
			arrived = at
		}
		if now >= dies && dies < span {
			dies = span
			arrived = arrived.Add(f.between(2*dead, 3*dead)) // in the meantime its batches pile up
		}
		if last := now+time.Second >= span; f.set.endedWell && last {
			now, b.End = span, true
		}
		drop := f.set.drops && f.IntN(20) == 0 && sequence > 1 && !b.End && now < span-10*time.Second
		if drop {
			dropped++
		} else {
			f.send(b, arrived, &heard)
			if dropped > 0 {
				told = []string{name + ": " + missing(sequence-dropped, sequence-1)}
			}
			f.missing = append(f.missing, told...)
			dropped, told = 0, nil
		}
		now += f.between(10*time.Millisecond, time.Second)
	}
	f.heard[name] = heard
}

func (f *fleet) send(b *wire.Batch, at time.Time, heard *time.Time) {
	for _, ev := range b.Events {
		f.sent[ev.Comm] = true
	}
	if !heard.IsZero() && at.Sub(*heard) > dead {
		f.silences[b.Host]++
	}
	*heard = at
	if f.set.disorder && b.Sequence > 1 && f.IntN(10) == 0 {
		at = at.Add(f.between(0, time.Second))
	}
	f.messages = append(f.messages, message{at, b})
	for f.set.disorder && f.IntN(10) == 0 {
		f.messages = append(f.messages, message{at.Add(f.between(0, 10*time.Second)), b})
	}
}

// Whatever happens on the way, what comes out is in order, but for what is marked; every event that
// gets here comes out once, and gaps are told where batches are missing, and where hosts are
// silent, and nowhere else.
func TestSimulation(t *testing.T) {
	for _, set := range []setup{
		{name: "calm"},
		{name: "calm to the end", endedWell: true},
		{name: "wrong clocks", clocks: true},
		{name: "disorder", disorder: true},
		{name: "missing", drops: true, endedWell: true},
		{name: "missing and disorder", drops: true, disorder: true},
		{name: "deaths", deaths: true},
		{name: "restarts", restarts: true},
		{name: "restarts and disorder", restarts: true, disorder: true},
		{name: "all", deaths: true, drops: true, restarts: true, disorder: true, clocks: true},
		{name: "little memory", deaths: true, drops: true, buffer: 20},
	} {
		t.Run(set.name, func(t *testing.T) {
			for seed := range *seeds {
				if !run(t, simulate(uint64(seed), set)) {
					t.Fatal("seed ", seed)
				}
			}
		})
	}
}

// run merges what gets here of a fleet, and checks what comes out.
func run(t *testing.T, f *fleet) bool {
	var out []Item
	m := newMerger(MergeOptions{Dead: dead, Buffer: f.set.buffer, Settle: time.Second}, func(i Item) error {
		out = append(out, i)
		return nil
	})
	tick := f.messages[0].at
	for _, msg := range f.messages {
		for ; tick.Before(msg.at); tick = tick.Add(50 * time.Millisecond) {
			m.Advance(tick)
		}
		m.Feed(msg.b, msg.at)
		m.Advance(msg.at)
		if m.Buffered() > m.o.Buffer {
			t.Fatal(m.Buffered(), " events are held back")
		}
		if m.byFloor.Len() > len(m.hosts) {
			t.Fatal(m.byFloor.Len(), " places in the ranking of ", len(m.hosts), " hosts")
		}
	}
	before := m.Stats()
	m.Drain()
	require.Zero(t, m.Buffered())

	last, s := int64(0), m.Stats()
	seen := map[string]bool{}
	byHost := map[string]int64{}
	holes := map[string][]Item{}
	var gaps []string
	silences := map[string]int{}
	behind := 0
	for _, i := range out {
		if i.Event.Gap.GetReason() == wire.Gap_HOST_BEHIND {
			behind++
			continue
		}
		if i.Late != (i.Wall < last) || i.Wall < byHost[i.Host] {
			t.Fatal("out of order: ", i)
		}
		last = max(last, i.Wall)
		byHost[i.Host] = i.Wall
		if gap := i.Event.Gap; gap != nil {
			if gap.Reason == wire.Gap_HOST_SILENT {
				silences[i.Host]++
			} else {
				gaps = append(gaps, i.Host+": "+i.Event.Detail)
				holes[i.Host] = append(holes[i.Host], i)
			}
			continue
		}
		id := i.Event.Comm
		if !strings.HasPrefix(id, i.Host+"/") || seen[id] {
			t.Fatal("it is another host's, or came twice: ", i)
		}
		seen[id] = true
		if off := max(i.Wall-f.truth[id], f.truth[id]-i.Wall); uint64(off) > i.Error {
			t.Fatal("it is not where it is said to be: ", i)
		}
	}
	const wrong = int64(20 * time.Millisecond) // more than clocks are
	for id, at := range f.truth {
		host, _, _ := strings.Cut(id, "/")
		h := s.ByHost[host]
		if !seen[id] && at >= h.From.UnixNano()+wrong && at < h.To.UnixNano()-wrong &&
			!slices.ContainsFunc(holes[host], func(i Item) bool { return at >= i.After-wrong && at <= i.Wall+wrong }) {
			t.Fatal("it is missing where all is known: ", id, " at ", time.Unix(0, at), ", of ", h)
		}
	}
	slices.Sort(gaps)
	slices.Sort(f.missing)
	ok := assert.ObjectsAreEqual(f.missing, gaps) && assert.ObjectsAreEqual(f.sent, seen) && uint64(len(seen)) == s.Events
	if !ok {
		t.Logf("missing %v, told %v; %d sent, %d seen", f.missing, gaps, len(f.sent), len(seen))
	}
	if f.set.buffer == 0 {
		require.Zero(t, s.Forced)
		if !f.set.disorder { // else a host may be heard of by what comes again
			require.Equal(t, f.silences, silences)
		}
		if !f.set.disorder { // else what comes again may keep a host from being silent
			require.Zero(t, behind)
		}
		if !f.set.deaths {
			require.Zero(t, before.Late)
		}
	}
	return ok
}
