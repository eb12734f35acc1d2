package tail

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/require"
)

// epoch is when the tests' events happen, and at a second of it.
var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// batch makes a batch of a host that was booted at epoch: times are in seconds since then, and comm
// says which event it is. It claims all that was before, but for the batches before it.
func batch(host string, sequence uint64, watermark float64, events ...float64) *wire.Batch {
	b := &wire.Batch{Host: host, BootId: "boot", LogId: "log", Sequence: sequence, First: 1, Watermark: uint64(watermark * 1e9), WallOffset: epoch.UnixNano()}
	for _, s := range events {
		b.Events = append(b.Events, &wire.Event{Kind: wire.Event_EXEC, Delta: uint64(s * 1e9), Comm: fmt.Sprint(host, s)})
	}
	return b
}

// merged is a merger, and what has come out of it since it was last asked.
type merged struct {
	*merger
	items []Item
}

func newMerged(o MergeOptions) *merged {
	m := &merged{}
	m.merger = newMerger(o, func(i Item) error {
		m.items = append(m.items, i)
		return nil
	})
	return m
}

// feed feeds batches that are received at the same time.
func (m *merged) feed(s float64, batches ...*wire.Batch) *merged {
	for _, b := range batches {
		m.Feed(b, at(s))
	}
	m.Advance(at(s))
	return m
}

// out is what has come out: events by their comm, gaps by host and reason.
func (m *merged) out() (out []string) {
	for _, i := range m.items {
		text := i.Event.Comm
		if i.Event.Gap != nil {
			text = i.Host + " " + i.Event.Gap.Reason.String()
		}
		if i.Late {
			text += " late"
		}
		if i.Forced {
			text += " forced"
		}
		out = append(out, text)
	}
	m.items = nil
	return out
}

// An event waits until every host has sent a watermark beyond it. Equal times come by the name of
// the host.
func TestWatermarks(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}})
	require.Empty(t, m.feed(1, batch("a", 1, 1, 0.1, 0.5, 0.9)).out())
	require.Equal(t, []string{"b0.05", "a0.1", "a0.5"}, m.feed(1.1, batch("b", 1, 0.6, 0.05)).out())
	require.Equal(t, []string{"b0.7", "a0.9"}, m.feed(1.2, batch("b", 2, 0.9, 0.7)).out()) // b may have more at 0.9, which come after
	require.Equal(t, []string{"b0.9"}, m.feed(1.3, batch("b", 3, 1, 0.9)).out())
	require.Empty(t, m.feed(1.4, batch("b", 4, 1.05, 1)).out()) // a may have one at 1, which is before
	require.Equal(t, []string{"b1"}, m.feed(1.5, batch("a", 2, 1.05)).out())
	require.Zero(t, m.Buffered())
	s := m.Stats()
	require.Equal(t, Stats{Events: 7, ByHost: map[string]Host{"a": {Events: 3, From: at(0), To: at(1.05)}, "b": {Events: 4, From: at(0), To: at(1.05)}},
		Gaps: map[wire.Gap_Reason]Gaps{}}, s)
}

// Where the watermark is behind the events that have come, these go on: no older ones of the host
// follow.
func TestOwnEvents(t *testing.T) {
	m := newMerged(MergeOptions{})
	require.Equal(t, []string{"a0.5", "a0.9"}, m.feed(1, batch("a", 1, 0.2, 0.5, 0.9)).out())
}

// A host of which nothing comes is waited for as long as Dead says. What it sends later than that
// is late.
func TestDeadHost(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}, Dead: 5 * time.Second})
	m.feed(1, batch("a", 1, 1, 0.5, 0.9), batch("b", 1, 0.7))
	require.Equal(t, []string{"a0.5"}, m.out())
	require.Empty(t, m.feed(4, batch("a", 2, 4, 3)).out())
	require.Empty(t, m.feed(5.9).out())
	require.Equal(t, []string{"b HOST_SILENT", "a0.9", "a3"}, m.feed(6, batch("a", 3, 6)).out())
	require.Equal(t, []string{"b0.8 late", "b2.9 late"}, m.feed(7, batch("b", 2, 2.95, 0.8, 2.9)).out())
	require.Equal(t, []string{"a6.2"}, m.feed(7.1, batch("a", 4, 7, 6.2)).out(), "a host that is far behind holds nobody up")
	require.Empty(t, m.feed(7.2, batch("b", 3, 7.1, 7.05)).out())
	require.Empty(t, m.feed(7.3, batch("b", 4, 7.3, 7.2)).out())
	require.Empty(t, m.feed(7.3, batch("a", 5, 7.04)).out())
	require.Equal(t, []string{"b7.05"}, m.feed(7.4, batch("a", 6, 7.1)).out())
	require.Equal(t, []string{"b7.2"}, m.feed(8, batch("a", 7, 7.5)).out())
	require.Empty(t, m.feed(8.1, batch("a", 8, 8, 7.4)).out(), "it is waited for again")
	require.Equal(t, uint64(2), m.Stats().Late)
	require.Equal(t, Gaps{Gaps: 1}, m.Stats().Gaps[wire.Gap_HOST_SILENT])
}

// A gap of a silent host says since when, unless it was waited for and never came.
func TestSilentSince(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}})
	m.feed(1, batch("a", 1, 0.7, 0.5))
	m.Advance(at(6))
	require.Zero(t, m.items[0].Wall, "nobody knows since when")
	gap := m.items[2]
	require.Equal(t, []int64{at(0.7).UnixNano(), at(0.7).UnixNano(), 0.7e9}, []int64{gap.After, gap.Wall, int64(gap.Time)})
	require.Equal(t, []string{"b HOST_SILENT", "a0.5", "a HOST_SILENT"}, m.out())
	m.Advance(at(20))
	require.Empty(t, m.out(), "once")
	m.Drain()
	require.True(t, m.Stats().ByHost["a"].Silent)
	require.Equal(t, Host{Silent: true}, m.Stats().ByHost["b"])
}

// A host that ends in good order is not waited for, and not missed.
func TestEnd(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}})
	end := batch("b", 1, 0.3, 0.2)
	end.End = true
	require.Equal(t, []string{"b0.2", "a0.5"}, m.feed(1, batch("a", 1, 1, 0.5), end).out())
	require.Empty(t, m.feed(5, batch("a", 2, 5), end).out(), "again: it does not live by that")
	require.Equal(t, []string{"a8"}, m.feed(8.1, batch("a", 3, 8.1, 8)).out())
	require.Equal(t, uint64(1), m.Stats().Duplicates)
	require.Empty(t, m.Stats().Gaps)
	m.feed(9, batch("b", 2, 9, 8.9)) // started again
	require.Empty(t, m.feed(9.1, batch("a", 4, 9.1, 9.05)).out()[1:])
}

// A batch that is missing is waited for. When it does not come, its place has a gap.
func TestMissing(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}})
	require.Equal(t, []string{"a0.5"}, m.feed(1, batch("a", 7, 1, 0.5), batch("b", 1, 0.9)).out(), "we come in where we come in")
	m.feed(2, batch("a", 9, 3, 2.5), batch("b", 2, 3, 0.9))
	require.Equal(t, []string{"b0.9"}, m.out())
	require.Equal(t, []string{"a2", "a2.5"}, m.feed(2.1, batch("a", 8, 2, 2)).out(), "out of order")
	m.feed(3, since(3.2, batch("a", 12, 4, 3.5)), batch("a", 13, 4.2, 4.1), batch("a", 15, 4.5, 4.4), batch("b", 3, 4))
	require.Equal(t, 3, m.Buffered())
	m.feed(7, batch("a", 16, 7), batch("b", 4, 7))
	require.Empty(t, m.out())
	m.Advance(at(8))
	require.Equal(t, "batches 10 to 11", m.items[0].Event.Detail)
	require.Equal(t, at(3).UnixNano(), m.items[0].After)
	require.Equal(t, uint64(3.2e9), m.items[0].Time)
	require.Equal(t, "batch 14", m.items[3].Event.Detail)
	require.Equal(t, []string{"a MISSING_BATCHES", "a3.5", "a4.1", "a MISSING_BATCHES", "a4.4"}, m.out())
	require.Empty(t, m.feed(8.1, batch("a", 10, 7, 3.1)).out(), "too late: the gap has been told")
	require.Equal(t, uint64(1), m.Stats().Duplicates)
	require.Equal(t, uint64(0), m.Stats().Late)
}

// since has a batch claim no more than what happened from then on.
func since(s float64, b *wire.Batch) *wire.Batch {
	b.Since = uint64(s * 1e9)
	return b
}

// of has a batch be of another log, which begins with first and follows a prior one in its spool.
func of(log string, first uint64, prior string, b *wire.Batch) *wire.Batch {
	b.LogId, b.First, b.Prior = log, first, prior
	return b
}

// An agent begins a log each time that it starts. From what that says of its spool, and since when
// it is complete, follows what may be missing before, and why.
func TestLogs(t *testing.T) {
	another := func(boot string, b *wire.Batch) *wire.Batch {
		b.BootId = boot
		return b
	}
	first := batch("a", 40, 5, 5)
	for name, c := range map[string]struct {
		then []*wire.Batch
		want []string
	}{
		"goes on":                   {[]*wire.Batch{since(5, batch("a", 41, 6, 5.5))}, []string{"a5.5"}},
		"started again":             {[]*wire.Batch{since(7, of("2", 41, "log", batch("a", 41, 8, 7.5)))}, []string{"a AGENT_DOWN after 5", "a7.5"}},
		"started twice":             {[]*wire.Batch{since(7, of("2", 41, "log", batch("a", 41, 8))), since(9, of("3", 42, "2", batch("a", 42, 10)))}, []string{"a AGENT_DOWN after 5", "a AGENT_DOWN after 8"}},
		"a reboot":                  {[]*wire.Batch{since(7, of("2", 41, "log", another("2", batch("a", 41, 8))))}, []string{"a AGENT_DOWN after 5"}},
		"again, what came before":   {[]*wire.Batch{since(7, of("2", 41, "log", batch("a", 41, 8))), first}, []string{"a AGENT_DOWN after 5"}},
		"out of order":              {[]*wire.Batch{since(7, of("2", 42, "log", batch("a", 42, 8))), since(5, batch("a", 41, 6, 5.5))}, []string{"a5.5", "a AGENT_DOWN after 6"}},
		"its last batch missing":    {[]*wire.Batch{since(7, of("2", 42, "log", batch("a", 42, 8, 7.5)))}, []string{"a MISSING_BATCHES after 5 (batch 41)", "a7.5"}},
		"another spool":             {[]*wire.Batch{since(7, of("2", 1, "", batch("a", 1, 8, 7.5)))}, []string{"a SPOOL_LOST after 5 (log 2)", "a7.5"}},
		"another spool and boot":    {[]*wire.Batch{since(1, of("2", 1, "", another("2", batch("a", 1, 8))))}, []string{"a SPOOL_LOST after 5 (log 2)"}},
		"another spool, disorder":   {[]*wire.Batch{since(8, of("2", 1, "", batch("a", 2, 9))), since(7, of("2", 1, "", batch("a", 1, 8, 7.5)))}, []string{"a SPOOL_LOST after 5 (log 2)", "a7.5"}},
		"another spool, not whole":  {[]*wire.Batch{since(7, of("2", 1, "", batch("a", 3, 8)))}, []string{"a MISSING_BATCHES after 5 (batches 1 to 2)"}},
		"an older copy":             {[]*wire.Batch{since(7, of("2", 30, "1", batch("a", 30, 8)))}, []string{"a SPOOL_LOST after 5 (log 2)"}},
		"an older copy of this":     {[]*wire.Batch{since(7, of("2", 40, "log", batch("a", 40, 8, 7.5)))}, []string{"a SPOOL_LOST after 5 (log 2)", "a7.5"}},
		"what happens as it begins": {[]*wire.Batch{since(7, of("2", 41, "log", batch("a", 41, 8, 6.9)))}, []string{"a AGENT_DOWN after 5", "a6.9"}},
		"another spool, its middle": {[]*wire.Batch{since(7, of("2", 1, "", batch("a", 100, 8)))}, []string{"a SPOOL_LOST after 5 (log 2)"}},
		"a copy with holes": {[]*wire.Batch{since(6.5, batch("a", 43, 7, 6.6)), since(7, of("2", 42, "log", batch("a", 43, 8, 7.5)))},
			[]string{"a MISSING_BATCHES after 5 (batches 41 to 42)", "a6.6", "a MISSING_BATCHES after 7 (batch 42)", "a7.5"}},
		"a copy runs on":         {[]*wire.Batch{since(7, of("2", 41, "log", batch("a", 41, 8, 7.5))), batch("a", 41, 9, 8.5)}, []string{"a AGENT_DOWN after 5", "a7.5", "a8.5"}},
		"another's middle":       {[]*wire.Batch{of("2", 1, "", batch("a", 5, 6, 5.5))}, []string{"a5.5"}},
		"what another publishes": {[]*wire.Batch{of("2", 41, "log", batch("a", 41, 6, 5.5))}, []string{"a5.5"}},
	} {
		m := newMerged(MergeOptions{})
		m.feed(6, first)
		m.out()
		m.feed(11, c.then...)
		m.Drain()
		var got []string
		for i, out := range slices.Clone(m.items) {
			if item := m.items[i]; item.Event.Gap != nil {
				out.Event.Comm = fmt.Sprint(item.Host, " ", item.Event.Gap.Reason, " after ", time.Duration(item.After-epoch.UnixNano()).Seconds())
				if item.Event.Detail != "" {
					out.Event.Comm += " (" + item.Event.Detail + ")"
				}
			}
			got = append(got, out.Event.Comm)
		}
		require.Equal(t, c.want, got, name)
		require.Zero(t, m.Stats().Late, name)
		gaps := uint64(len(c.want))
		require.Equal(t, gaps-m.Stats().Events+1, m.Stats().ByHost["a"].Gaps, name)
	}

	m := newMerged(MergeOptions{})
	for i := range 3 * maxLogs {
		m.feed(14, of(fmt.Sprint(i), 1, "", batch("a", 1, 4, 3)))
	}
	require.LessOrEqual(t, len(m.hosts["a"].logs), maxLogs)
	require.LessOrEqual(t, len(m.hosts["a"].order), maxLogs)
}

// Two agents that publish as one host are reported once, and what each of them publishes is all
// there: nothing of it is missing.
func TestTwoAgents(t *testing.T) {
	for name, second := range map[string]func(n uint64, s float64) *wire.Batch{
		"another spool": func(n uint64, s float64) *wire.Batch {
			return of("2", 1, "", since(s-0.5, batch("a", n+68, s+0.5, s+0.3))) // of which we do not know the beginning
		},
		"another machine": func(n uint64, s float64) *wire.Batch {
			b := of("2", 1, "", since(s+999.5, batch("a", n+68, s+1000.5, s+1000.3)))
			b.BootId, b.WallOffset = "2", at(-1000).UnixNano()
			return b
		},
		"a copy of the spool": func(n uint64, s float64) *wire.Batch {
			return of("2", 3, "log", since(s-0.5, batch("a", n+2, s+0.5, s+0.3)))
		},
	} {
		m := newMerged(MergeOptions{})
		var events int
		for n := uint64(1); n < 50; n++ {
			s := float64(n)
			m.feed(s, since(s-1, batch("a", n, s, s-0.2)))
			if events++; n > 2 {
				m.feed(s+0.5, second(n-2, s))
				events++
			}
		}
		m.Drain()
		require.Equal(t, uint64(events), m.Stats().Events, name)
		require.Zero(t, m.Stats().Duplicates, name)
		require.Equal(t, Gaps{Gaps: 1}, m.Stats().Gaps[wire.Gap_TWO_AGENTS], name)
		require.Zero(t, m.Stats().Gaps[wire.Gap_MISSING_BATCHES], name)
		for _, i := range m.items {
			if i.Event.Gap.GetReason() == wire.Gap_TWO_AGENTS {
				require.Equal(t, "logs 2 and log", i.Event.Detail)
			}
		}
	}
}

// A clock that is set back does not reorder a host's events. How far they are moved is said.
func TestClockSetBack(t *testing.T) {
	m := newMerged(MergeOptions{})
	m.feed(2, batch("a", 1, 1, 0.5))
	idle, back := batch("a", 2, 1.1), batch("a", 3, 2, 1.2, 1.9)
	idle.WallOffset -= 5e8
	back.WallOffset -= 5e8
	back.WallError = 100
	m.feed(3, idle, back)
	require.Len(t, m.items, 3)
	require.Equal(t, at(1).UnixNano(), m.items[1].Wall)
	require.Equal(t, uint64(3e8+100), m.items[1].Error)
	require.Equal(t, at(1.4).UnixNano(), m.items[2].Wall)
	require.Equal(t, uint64(100), m.items[2].Error)
	require.Equal(t, 3e8+100, float64(m.Stats().MaxError))
	require.Equal(t, []string{"a0.5", "a1.2", "a1.9"}, m.out())
}

// A clock that is far ahead neither holds its host's events back for as long, nor makes those of
// others late.
func TestClockAhead(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}})
	for s, n := 1.0, uint64(1); s < 200; s, n = s+1, n+1 {
		b := batch("b", n, s, s-0.1)
		b.WallOffset += int64(time.Hour)
		m.feed(s, batch("a", n, s, s-0.2), b)
	}
	require.Equal(t, uint64(0), m.Stats().Late)
	require.InDelta(t, 61, m.Buffered(), 2)
	require.InDelta(t, float64(time.Hour-maxAhead), float64(m.Stats().MaxError), float64(time.Second))

	b := batch("b", 200, 0, 0)
	b.BaseTime, b.WallOffset, b.WallError = 1<<64-1, 1<<63-1, 1<<64-1
	m.feed(200, b)
	m.Drain()
	require.Equal(t, at(260).UnixNano(), m.items[len(m.items)-1].Wall)
}

// A host that lags does not make others' events take any amount of memory.
func TestBuffer(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}, Buffer: 3})
	m.feed(1, batch("b", 1, 0.1))
	require.Empty(t, m.feed(1, batch("a", 1, 1, 0.5, 0.6, 0.7)).out())
	require.Equal(t, []string{"a0.5 forced", "a0.6", "a0.7", "a0.8", "a0.9"}, m.feed(1.1, batch("a", 2, 1.1, 0.8, 0.9)).out(), "b is far behind now")
	require.Equal(t, []string{"b0.2 late", "b0.55 late"}, m.feed(1.2, batch("b", 2, 0.7, 0.2, 0.55)).out())
	require.Equal(t, []string{"a1.2"}, m.feed(1.3, batch("b", 3, 1.3), batch("a", 3, 1.3, 1.2)).out())
	require.Equal(t, uint64(1), m.Stats().Forced)
	require.Equal(t, uint64(2), m.Stats().Late)

	// Batches that wait for a missing one count too.
	m.feed(2, batch("a", 10, 2, 1.5, 1.6), batch("a", 11, 2, 1.7, 1.8), batch("b", 4, 2))
	require.Contains(t, m.out(), "a MISSING_BATCHES")
	require.LessOrEqual(t, m.Buffered(), 3)
}

// At the start, nothing comes out until live hosts had time to send something.
func TestSettle(t *testing.T) {
	m := newMerged(MergeOptions{Settle: 2 * time.Second})
	require.Empty(t, m.feed(1, batch("a", 1, 1, 0.9)).out())
	require.Empty(t, m.feed(2, batch("a", 2, 2), batch("b", 1, 2, 0.5)).out())
	require.Equal(t, []string{"b0.5", "a0.9"}, m.feed(3).out())
}

// When nothing could be heard of anyone, nobody is to blame.
func TestResume(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "c"}})
	m.feed(1, batch("a", 1, 1), batch("b", 1, 1), batch("b", 3, 2))
	m.Resume(at(60))
	require.Empty(t, m.feed(64.9).out())
	require.ElementsMatch(t, []string{"a HOST_SILENT", "b HOST_SILENT", "b MISSING_BATCHES", "c HOST_SILENT"}, m.feed(65).out())
}

// What could not be read is a gap where its host has got to.
func TestMalformedMessage(t *testing.T) {
	m := newMerged(MergeOptions{})
	m.feed(1, batch("a", 1, 1, 0.5))
	m.Malformed("a", "why", at(1.1))
	m.Malformed("x", "why", at(1.1))
	m.Advance(at(1.1))
	require.Equal(t, "why", m.items[1].Event.Detail)
	require.Zero(t, m.items[1].Wall)
	require.Equal(t, at(1).UnixNano(), m.items[2].Wall)
	require.Equal(t, []string{"a0.5", "x MALFORMED", "a MALFORMED"}, m.out())
	require.Equal(t, map[string]Host{"a": {Events: 1, From: at(0), To: at(1), Gaps: 1}}, m.Stats().ByHost)
}

// After an error of deliver, nothing more is delivered or counted.
func TestEnough(t *testing.T) {
	n := 0
	m := newMerger(MergeOptions{}, func(Item) error {
		if n++; n == 2 {
			return io.EOF
		}
		return nil
	})
	m.Feed(batch("a", 1, 1, 0.1, 0.2, 0.3), at(1))
	m.Advance(at(1))
	m.Malformed("x", "", at(1))
	m.Drain()
	require.Equal(t, io.EOF, m.Err())
	require.Equal(t, 2, n)
	require.Equal(t, uint64(2), m.Stats().Events)
	require.Equal(t, at(0.2), m.Stats().ByHost["a"].To, "what was held back is not known")
}

// A host whose clock is slow, or whose watermark stands still, holds up the others: this is
// reported once, with since when.
func TestBehind(t *testing.T) {
	m := newMerged(MergeOptions{})
	for s := 1.0; s < 11; s++ {
		slow := batch("slow", uint64(s), s, s-0.1)
		slow.WallOffset -= int64(time.Hour)
		m.feed(s, batch("good", uint64(s), s, s-0.2), slow, batch("still", uint64(s), 1))
		require.Nil(t, m.Waiting())
	}
	m.out()
	m.feed(11, batch("good", 11, 11), batch("still", 11, 1))
	require.Len(t, m.items, 1)
	require.Equal(t, at(1).UnixNano(), m.items[0].After)
	require.Equal(t, "its clock, or what it sends, is 1h0m1s behind", m.items[0].Event.Detail)
	require.Equal(t, []string{"slow HOST_BEHIND"}, m.out())
	require.Equal(t, &Wait{Host: "slow", Since: at(1), Events: 10, Behind: time.Hour + time.Second}, m.Waiting())

	end := batch("slow", 11, 11)
	end.WallOffset -= int64(time.Hour)
	end.End = true
	require.Equal(t, []string{"good0.8", "still HOST_BEHIND"}, m.feed(12, batch("good", 12, 12), batch("still", 12, 1), end).out())
	for s := 13.0; s < 30; s++ {
		require.Empty(t, m.feed(s, batch("good", uint64(s), s), batch("still", uint64(s), 1)).out(), "it was told of")
	}
	require.Len(t, m.feed(30, batch("still", 30, 30)).out(), 9)
	require.Nil(t, m.Waiting())
	require.Equal(t, Gaps{Gaps: 2}, m.Stats().Gaps[wire.Gap_HOST_BEHIND])
	m.feed(31, batch("good", 30, 31, 30.5), batch("still", 31, 30))
	for s := 32.0; s < 42; s++ {
		m.feed(s, batch("good", uint64(s-1), s), batch("still", uint64(s), 30))
	}
	require.Equal(t, []string{"still HOST_BEHIND"}, m.out(), "it is so again")
}
