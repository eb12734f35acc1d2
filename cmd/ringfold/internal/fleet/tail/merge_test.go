package tail

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/require"
)

// epoch is when the tests' events happen, and at a second of it.
var epoch = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// batch makes a batch of a host that was booted at epoch: times are in seconds since then, and comm says which event it is.
func batch(host string, sequence uint64, watermark float64, events ...float64) *wire.Batch {
	b := &wire.Batch{Host: host, BootId: "boot", LogId: "log", Sequence: sequence, Watermark: uint64(watermark * 1e9), WallOffset: epoch.UnixNano()}
	for _, s := range events {
		b.Events = append(b.Events, &wire.Event{Kind: wire.Event_EXEC, Delta: uint64(s * 1e9), Comm: fmt.Sprint(host, s)})
	}
	return b
}

// merged is a Merger, and what has come out of it since it was last asked.
type merged struct {
	*Merger
	items []Item
}

func newMerged(o MergeOptions) *merged {
	m := &merged{}
	m.Merger = NewMerger(o, func(i Item) error {
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

// An event waits until every host has sent a watermark beyond it. Equal times come by the name of the host.
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
	require.Equal(t, Stats{Events: 7, ByHost: map[string]uint64{"a": 3, "b": 4}, Gaps: map[wire.Gap_Reason]Gaps{}}, s)
}

// Where the watermark is behind the events that have come, these go on: no older ones of the host follow.
func TestOwnEvents(t *testing.T) {
	m := newMerged(MergeOptions{})
	require.Equal(t, []string{"a0.5", "a0.9"}, m.feed(1, batch("a", 1, 0.2, 0.5, 0.9)).out())
}

// A host of which nothing comes is waited for as long as Dead says. What it sends later than that is late.
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

// A gap of a silent host says since when.
func TestSilentSince(t *testing.T) {
	m := newMerged(MergeOptions{})
	m.feed(1, batch("a", 1, 0.7, 0.5))
	m.out()
	m.Advance(at(6))
	require.Len(t, m.items, 1)
	require.Equal(t, uint64(0.7e9), m.items[0].Event.Gap.After)
	require.Equal(t, uint64(0.7e9), m.items[0].Time)
	require.Equal(t, at(0.7).UnixNano(), m.items[0].Wall)
	m.Advance(at(20))
	require.Len(t, m.items, 1, "once")
}

// A host that is waited for and never comes.
func TestNeverHeardOf(t *testing.T) {
	m := newMerged(MergeOptions{Hosts: []string{"a", "b"}})
	require.Empty(t, m.feed(1, batch("a", 1, 1, 0.5)).out())
	m.feed(6, batch("a", 2, 6))
	require.Zero(t, m.items[0].Wall, "nobody knows since when")
	require.Equal(t, []string{"b HOST_SILENT", "a0.5"}, m.out())
	require.NotContains(t, m.Stats().ByHost, "b")
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
	m.feed(3, batch("a", 12, 4, 3.5), batch("a", 13, 4.2, 4.1), batch("a", 15, 4.5, 4.4), batch("b", 3, 4))
	require.Equal(t, 3, m.Buffered())
	m.feed(7, batch("a", 16, 7), batch("b", 4, 7))
	require.Empty(t, m.out())
	m.Advance(at(8))
	require.Equal(t, "batches 10 to 11", m.items[0].Event.Detail)
	require.Equal(t, uint64(3e9), m.items[0].Event.Gap.After)
	require.Equal(t, uint64(3.5e9), m.items[0].Time)
	require.Equal(t, "batch 14", m.items[3].Event.Detail)
	require.Equal(t, []string{"a MISSING_BATCHES", "a3.5", "a4.1", "a MISSING_BATCHES", "a4.4"}, m.out())
	require.Empty(t, m.feed(8.1, batch("a", 10, 7, 3.1)).out(), "too late: the gap has been told")
	require.Equal(t, uint64(1), m.Stats().Duplicates)
	require.Equal(t, uint64(0), m.Stats().Late)
}

// What has come already does not come again.
func TestDuplicates(t *testing.T) {
	m := newMerged(MergeOptions{})
	m.feed(1, batch("a", 1, 1, 0.5), batch("a", 1, 1, 0.5), batch("a", 2, 2, 1.5), batch("a", 1, 1, 0.5), batch("a", 4, 2, 2), batch("a", 4, 2, 2))
	m.Drain()
	require.Equal(t, []string{"a0.5", "a1.5", "a MISSING_BATCHES", "a2"}, m.out())
	require.Equal(t, uint64(3), m.Stats().Duplicates)
}

// Another boot or log has sequence numbers of its own, from 1 on. What comes again of an earlier one is known.
func TestAnotherLog(t *testing.T) {
	m := newMerged(MergeOptions{})
	second := func(sequence uint64, watermark float64, events ...float64) *wire.Batch {
		b := batch("a", sequence, watermark, events...)
		b.BootId, b.LogId, b.WallOffset = "boot 2", "log 2", at(10).UnixNano()
		return b
	}
	require.Equal(t, []string{"a5"}, m.feed(6, batch("a", 40, 5, 5)).out())
	require.Equal(t, []string{"a0.1"}, m.feed(11, second(1, 0.5, 0.1)).out())
	require.Empty(t, m.feed(11, batch("a", 40, 5, 5)).out())
	require.Equal(t, []string{"a0.7"}, m.feed(12, second(2, 1, 0.7)).out())
	require.Equal(t, uint64(1), m.Stats().Duplicates)
	require.Empty(t, m.Stats().Gaps)

	third := second(2, 3, 2)
	third.LogId = "log 3" // its first one is missing
	m.feed(13, third)
	m.Drain()
	require.Equal(t, []string{"a MISSING_BATCHES", "a2"}, m.out())

	for i := range 3 * maxLogs {
		b := second(1, 4, 3)
		b.LogId = fmt.Sprint(i)
		m.feed(14, b)
	}
	require.LessOrEqual(t, len(m.hosts["a"].logs), maxLogs)
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

// A clock that is far ahead neither holds its host's events back for as long, nor makes those of others late.
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

// At the start, nothing comes out before those who are alive have had the time to be heard.
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
	require.Equal(t, map[string]uint64{"a": 1}, m.Stats().ByHost)
}

// Who has had enough gets nothing more, and it is not counted.
func TestEnough(t *testing.T) {
	n := 0
	m := NewMerger(MergeOptions{}, func(Item) error {
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
}

// A host whose clock is slow, or whose watermark stands still, holds up the others: that is told of, once, with since when.
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
