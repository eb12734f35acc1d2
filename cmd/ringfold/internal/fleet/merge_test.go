package fleet

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// An event waits until every host has come beyond its time.
func TestWatermarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{Hosts: []string{"a", "b"}})
		require.Empty(t, m.feed(1, msg("a", 1, 1, 0.1, 0.5, 0.9)).out())
		require.Equal(t, []string{"b0.05", "a0.1", "a0.5"}, m.feed(1.1, msg("b", 1, 0.6, 0.05)).out())
		require.Equal(t, []string{"b0.7"}, m.feed(1.2, msg("b", 2, 0.9, 0.7)).out(), "b may have more at 0.9")
		require.Equal(t, []string{"a0.9", "b0.9"}, m.feed(1.3, msg("b", 3, 1, 0.9)).out())
		require.Empty(t, m.feed(1.4, msg("b", 4, 1.05, 1)).out())
		require.Equal(t, []string{"b1"}, m.feed(1.5, msg("a", 2, 1.05)).out())
		require.Zero(t, m.idle(1.5).held)
		require.Equal(t, map[string]Host{"a": {From: at(0), To: at(1.05)}, "b": {From: at(0), To: at(1.05)}}, m.known(nil))
		require.Empty(t, m.result.Gaps)
	})
}

// Where a host's recording is behind the events that have come, these go on: no older ones of the
// host follow. It is waited for from there on.
func TestOwnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{})
		require.Equal(t, []string{"a0.5", "a0.9"}, m.feed(1, msg("a", 1, 0.2, 0.5, 0.9)).out())
		require.Empty(t, m.feed(1, msg("b", 1, 1.5, 1)).out())
		require.Equal(t, []string{"a0.95", "b1"}, m.feed(1, msg("a", 2, 1.1, 0.95)).out())
	})
}

// A host of which nothing comes is waited for as long as Dead says. What it sends later than that
// is late, and it is waited for again when it has caught up.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{Hosts: []string{"a", "b", "c"}})
		require.Empty(t, m.feed(1, msg("a", 1, 1, 0.5, 0.9), msg("b", 1, 0.7)).out())
		require.Equal(t, []string{"fleet: host silent: c: nothing has come of it", "a0.5"}, m.feed(4, msg("a", 2, 4, 3)).out())
		require.Empty(t, m.idle(5.9).out())
		require.Equal(t, []string{"b: host silent: its events may come late, after 0.7", "a0.9", "a3"}, m.feed(6, msg("a", 3, 6)).out())
		require.Equal(t, []string{"b0.8 late", "b2.9 late"}, m.feed(7, msg("b", 2, 2.95, 0.8, 2.9)).out())
		require.Equal(t, []string{"a6.2"}, m.feed(7.1, msg("a", 4, 7, 6.2)).out(), "a host that is far behind holds nobody up")
		require.False(t, m.backlog().waits())
		m.feed(7.3, msg("b", 3, 7.1, 7.05), msg("b", 4, 7.3, 7.2), msg("a", 5, 7.04))
		require.Empty(t, m.out())
		require.Equal(t, []string{"b7.05"}, m.feed(7.4, msg("a", 6, 7.1)).out())
		require.Equal(t, []string{"b7.2"}, m.feed(8, msg("a", 7, 7.5)).out())
		require.Empty(t, m.feed(8.1, msg("a", 8, 8, 7.4)).out(), "it is waited for again")
		require.Equal(t, map[string]uint64{HostSilent: 2}, m.result.Gaps)
		m.idle(20)
		require.Contains(t, m.out(), "a: host silent: its events may come late, after 8")
		m.idle(40)
		require.Empty(t, m.out(), "once")
		require.Equal(t, map[string]Host{"a": {From: at(0), To: at(8), Silent: true}, "b": {From: at(0), To: at(7.3), Silent: true}, "c": {Silent: true}}, m.known(nil))
	})
}

// A host that ends in good order is not waited for, and not missed.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{Hosts: []string{"a", "b"}})
		require.False(t, m.ended())
		end := ends(msg("b", 1, 0.3, 0.2))
		require.Equal(t, []string{"b0.2", "a0.5"}, m.feed(1, msg("a", 1, 1, 0.5), end).out())
		require.Empty(t, m.feed(5, msg("a", 2, 5), ends(msg("b", 1, 0.3, 0.2))).out(), "again: it does not live by that")
		require.Equal(t, []string{"a8"}, m.feed(8.1, msg("a", 3, 8.1, 8)).out())
		require.Equal(t, uint64(1), m.result.Duplicates)
		require.Empty(t, m.result.Gaps)
		require.False(t, m.ended())
		require.Len(t, m.feed(9, msg("b", 2, 9, 8.9)).out(), 0) // started again
		require.Equal(t, []string{"b8.9"}, m.feed(9.1, msg("a", 4, 9.1, 9.05)).out())
		m.feed(9.2, ends(msg("a", 5, 9.2)), ends(msg("b", 3, 9.2)))
		require.True(t, m.ended())
		require.Equal(t, []string{"a9.05"}, m.out())
	})
}

// A message that is missing is waited for. When it does not come, its place has a gap.
func TestMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{})
		require.Equal(t, []string{"a0.5"}, m.feed(1, msg("a", 7, 1, 0.5), msg("b", 1, 0.9)).out(), "we come in where we come in")
		require.Equal(t, []string{"b0.95"}, m.feed(2, msg("a", 9, 3, 2.5), msg("b", 2, 3, 0.95)).out())
		require.Equal(t, []string{"a2", "a2.5"}, m.feed(2.1, msg("a", 8, 2, 2)).out(), "out of order")
		m.feed(3, since(3.2, msg("a", 12, 4, 3.5)), msg("a", 13, 4.2, 4.1), msg("a", 15, 4.5, 4.4), msg("b", 3, 4))
		require.Equal(t, 3, m.held)
		require.Empty(t, m.feed(7, msg("a", 16, 7), msg("b", 4, 7)).out())
		want := []string{"a: missing messages: messages 10 to 11, after 3", "a3.5", "a4.1", "a: missing messages: message 14, after 4.2", "a4.4"}
		require.Equal(t, want, m.idle(8).out())
		require.Equal(t, uint64(at(3.2).UnixNano()), m.events[0].Time)
		require.Empty(t, m.feed(8.1, msg("a", 10, 7, 3.1)).out(), "too late: the gap has been told")
		require.Equal(t, uint64(1), m.result.Duplicates)
		require.Equal(t, uint64(2), m.known(nil)["a"].Gaps)
	})
}

// A Sink begins a log each time that it starts. From what that says of its spool, and since when it
// is complete, follows what may be missing before, and why.
func TestLogs(t *testing.T) {
	first := func() *message { return msg("a", 40, 5, 5) }
	for name, c := range map[string]struct{ then, want []any }{
		"goes on":                   {list(since(5, msg("a", 41, 6, 5.5))), list("a5.5")},
		"started again":             {list(since(7, of("2", 41, "log", msg("a", 41, 8, 7.5)))), list("agent down, after 5", "a7.5")},
		"started twice":             {list(since(7, of("2", 41, "log", msg("a", 41, 8))), since(9, of("3", 42, "2", msg("a", 42, 10)))), list("agent down, after 5", "agent down, after 8")},
		"a reboot":                  {list(since(7, of("2", 41, "log", boot("2", msg("a", 41, 8))))), list("agent down, after 5")},
		"again, what came before":   {list(since(7, of("2", 41, "log", msg("a", 41, 8))), first()), list("agent down, after 5")},
		"out of order":              {list(since(7, of("2", 42, "log", msg("a", 42, 8))), since(5, msg("a", 41, 6, 5.5))), list("a5.5", "agent down, after 6")},
		"its last message missing":  {list(since(7, of("2", 42, "log", msg("a", 42, 8, 7.5)))), list("missing messages: message 41, after 5", "a7.5")},
		"another spool":             {list(since(7, of("2", 1, "", msg("a", 1, 8, 7.5)))), list("spool lost: log 2, after 5", "a7.5")},
		"another spool and boot":    {list(since(1, of("2", 1, "", boot("2", msg("a", 1, 8))))), list("spool lost: log 2, after 5")},
		"another spool, disorder":   {list(since(8, of("2", 1, "", msg("a", 2, 9))), since(7, of("2", 1, "", msg("a", 1, 8, 7.5)))), list("spool lost: log 2, after 5", "a7.5")},
		"another spool, not whole":  {list(since(7, of("2", 1, "", msg("a", 3, 8)))), list("missing messages: messages 1 to 2, after 5")},
		"an older copy":             {list(since(7, of("2", 30, "1", msg("a", 30, 8)))), list("spool lost: log 2, after 5")},
		"an older copy of this":     {list(since(7, of("2", 40, "log", msg("a", 40, 8, 7.5)))), list("spool lost: log 2, after 5", "a7.5")},
		"what happens as it begins": {list(since(7, of("2", 41, "log", msg("a", 41, 8, 6.9)))), list("agent down, after 5", "a6.9")},
		"another spool, its middle": {list(since(7, of("2", 1, "", msg("a", 100, 8)))), list("spool lost: log 2, after 5")},
		"a copy with holes": {list(since(6.5, msg("a", 43, 7, 6.6)), since(7, of("2", 42, "log", msg("a", 43, 8, 7.5)))),
			list("missing messages: messages 41 to 42, after 5", "a6.6", "missing messages: message 42, after 7", "a7.5")},
		"a copy runs on":         {list(since(7, of("2", 41, "log", msg("a", 41, 8, 7.5))), msg("a", 41, 9, 8.5)), list("agent down, after 5", "a7.5", "a8.5")},
		"another's middle":       {list(of("2", 1, "", msg("a", 5, 6, 5.5))), list("a5.5")},
		"what another publishes": {list(of("2", 41, "log", msg("a", 41, 6, 5.5))), list("a5.5")},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMerged(t, ReadOptions{}).feed(6, first())
			m.out()
			for _, one := range c.then {
				m.feed(11, one.(*message))
			}
			m.end()
			var want []string
			gaps := uint64(0)
			for _, w := range c.want {
				if w := w.(string); w[0] == 'a' && w[1] != 'g' {
					want = append(want, w)
				} else {
					want = append(want, "a: "+w)
					gaps++
				}
			}
			require.Equal(t, want, m.out(), name)
			for _, r := range m.events {
				if r.Kind == perfbuf.KindSample {
					require.Equal(t, fmt.Sprint("a", time.Duration(int64(r.Time)-epoch.UnixNano()).Seconds()), text(r), "it is not moved")
				}
			}
			require.Equal(t, gaps, m.known(nil)["a"].Gaps, name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{})
		for i := range 3 * maxLogs {
			m.feed(14, of(fmt.Sprint(i), 1, "", msg("a", 1, 4, 3)))
		}
		require.LessOrEqual(t, len(m.hosts["a"].logs), maxLogs)
		require.LessOrEqual(t, len(m.hosts["a"].order), maxLogs)
	})
}

func list(all ...any) []any { return all }

// Two that publish as one host are reported once, and what each of them publishes is all there.
func TestTwoAgents(t *testing.T) {
	for name, second := range map[string]func(n uint64, s float64) *message{
		"another spool": func(n uint64, s float64) *message { // of which we do not know the beginning
			return of("2", 1, "", since(s-0.5, msg("a", n+68, s+0.5, s+0.3)))
		},
		"another machine": func(n uint64, s float64) *message {
			return of("2", 1, "", boot("2", wrong(-1000, since(s+999.5, msg("a", n+68, s+1000.5, s+1000.3)))))
		},
		"a copy of the spool": func(n uint64, s float64) *message {
			return of("2", 3, "log", since(s-0.5, msg("a", n+2, s+0.5, s+0.3)))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMerged(t, ReadOptions{})
			events := 0
			for n := uint64(1); n < 50; n++ {
				s := float64(n)
				m.feed(s, since(s-1, msg("a", n, s, s-0.2)))
				if events++; n > 2 {
					m.feed(s+0.5, second(n-2, s))
					events++
				}
			}
			m.end()
			require.Len(t, m.out(), events+int(m.result.Gaps[AgentDown]+m.result.Gaps[SpoolLost])+1, name)
			require.Zero(t, m.result.Duplicates, name)
			require.Equal(t, uint64(1), m.result.Gaps[TwoAgents], name)
			require.Zero(t, m.result.Gaps[MissingMessages], name)
		})
	}
}

// A clock that is set back does not reorder a host's events. How far they are moved is said.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{})
		back := wrong(-0.5, msg("a", 3, 2, 1.2, 1.9))
		back.Error = 100
		m.feed(3, msg("a", 1, 1, 0.5), wrong(-0.5, msg("a", 2, 1.1)), back)
		m.end()
		require.Equal(t, []string{"a0.5", "a1.2", "a1.9"}, m.out())
		for i, want := range []struct{ at, wrong float64 }{{0.5, 0}, {1, 0.3e9 + 100}, {1.4, 100}} {
			require.Equal(t, uint64(at(want.at).UnixNano()), m.events[i].Time)
			require.EqualValues(t, want.wrong, m.lives["a"].Error(m.events[i].Time))
		}
	})
}

// A clock that is far ahead neither holds its host's events back for as long, nor makes those of
// others late.
func TestClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{Hosts: []string{"a", "b"}})
		for n := uint64(1); n < 200; n++ {
			s := float64(n)
			m.feed(s, msg("a", n, s, s-0.2), wrong(3600, msg("b", n, s, s-0.1)))
		}
		all := m.out()
		require.InDelta(t, 61, m.idle(199).held, 2)
		b := wrong(3600, msg("b", 200, 200))
		b.data, b.Offset, b.Error = sample(nil, 1<<62, "last"), 1<<63-1, 1<<64-1
		m.feed(200, b)
		m.end()
		all = append(all, m.out()...)
		require.Equal(t, "last", all[len(all)-1])
		require.Equal(t, uint64(at(260).UnixNano()), m.events[len(m.events)-1].Time)
		for _, s := range all {
			require.NotContains(t, s, "late")
		}
	})
}

// A host that lags does not make others' events take any amount of memory: beyond that nobody is
// waited for, until half of it is delivered.
func TestBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{Hosts: []string{"a", "b"}, Buffer: 3})
		require.Empty(t, m.feed(1, msg("b", 1, 0.1), msg("a", 1, 1, 0.5, 0.6, 0.7)).out())
		m.feed(1.1, msg("a", 2, 1.1, 0.8, 0.9))
		require.True(t, m.full)
		require.Equal(t, []string{"fleet: host behind: 5 events are held back: nobody is waited for until half of them are delivered", "a0.5", "a0.6", "a0.7", "a0.8", "a0.9"}, m.out())
		require.False(t, m.idle(1.15).full)
		require.Equal(t, []string{"b0.2 late", "b0.55 late"}, m.feed(1.2, msg("b", 2, 0.7, 0.2, 0.55)).out(), "b is far behind now")
		require.Equal(t, []string{"a1.2"}, m.feed(1.3, msg("b", 3, 1.3), msg("a", 3, 1.3, 1.2)).out())
		require.Empty(t, m.feed(1.4, msg("a", 4, 1.4, 1.35)).out(), "b is waited for again")
		require.Equal(t, map[string]uint64{HostBehind: 1}, m.result.Gaps)

		m = newMerged(t, ReadOptions{Buffer: 3}).feed(1, msg("a", 1, 1, 0.5, 0.6, 0.7, 0.8, 0.9))
		require.Equal(t, []any{5, false, false}, []any{m.held, m.blocked, m.full}, "it is the events' reader that is slow")
	})
}

// At the start, nothing comes out until live hosts had time to send something.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{})
		m.resume(at(1))
		require.Empty(t, m.feed(1, msg("a", 1, 1, 0.9)).out())
		require.Empty(t, m.feed(2, msg("a", 2, 2), msg("b", 1, 2, 0.5)).out())
		require.Equal(t, []string{"b0.5", "a0.9"}, m.idle(2.5).out())
	})
}

// When nothing could be heard of anyone, nobody is to blame.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{Hosts: []string{"a", "c"}})
		m.feed(1, msg("a", 1, 1), msg("b", 1, 1), msg("b", 3, 2))
		m.resume(at(60))
		require.Empty(t, m.idle(64.9).out())
		require.ElementsMatch(t, []string{"a: host silent: its events may come late, after 1", "b: missing messages: message 2, after 1",
			"b: host silent: its events may come late, after 2", "fleet: host silent: c: nothing has come of it"}, m.idle(65).out())
	})
}

// What could not be read is a gap where its host has got to: a message, its records, or the head of
// its log.
func TestMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{})
		m.feed(1, msg("a", 1, 1, 0.5))
		m.malformed("a", "why", at(1.1))
		m.malformed("x", "why", at(1.1))
		require.Equal(t, []string{"fleet: malformed: x: why", "a0.5", "a: malformed: why"}, m.idle(1.1).out())
		require.Equal(t, map[string]Host{"a": {From: at(0), To: at(1), Gaps: 1}}, m.known(nil))
		bad := msg("a", 2, 2, 1.5)
		bad.data = bad.data[:len(bad.data)-1]
		m.feed(2, bad, msg("a", 3, 3, 2.5))
		require.Equal(t, []string{"a: malformed: message 2 of log log: perfdata: a: at offset 0 is a record of 48 bytes, of 47, after 0", "a2.5"}, m.out())

		m.heads = func(*message) ([]byte, error) { return nil, errors.New("gone") }
		m.feed(3, of("2", 4, "log", msg("a", 4, 4, 3.5)))
		m.feed(3, since(4, of("2", 4, "log", msg("a", 5, 5, 4.5))))
		require.Equal(t, []string{"a: malformed: message 4 of log 2: the head of log 2: gone, after 0"}, m.out())
		again := of("2", 4, "log", msg("a", 6, 0))
		again.Head, again.data = true, head("events")
		m.feed(4, again, since(5, of("2", 4, "log", msg("a", 7, 6, 5.5))))
		require.Equal(t, []string{"a: malformed: what came before the head of log 2, after 3", "a5.5"}, m.out())
		m.heads = func(*message) ([]byte, error) { return []byte("x"), nil }
		m.feed(4, msg("y", 1, 6.5, 6.2))
		require.Contains(t, m.out()[0], "fleet: malformed: y: message 1 of log log: perfdata: y: ")
		require.Equal(t, []uint64{5, 6}, []uint64{m.result.Malformed, m.result.Gaps[Malformed]})
	})
}

// A host of which others wait for too long is reported at once, and again when it is so again.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{})
		for s := 1.0; s < 11; s++ {
			m.feed(s, msg("good", uint64(s), s, s-0.2), wrong(-3600, msg("slow", uint64(s), s, s-0.1)), msg("still", uint64(s), 1))
		}
		require.Len(t, m.out(), 10, "those of the slow one")
		m.feed(11, msg("good", 11, 11), msg("still", 11, 1))
		require.Equal(t, []string{"fleet: host behind: slow: its clock, or what it sends, is 1h0m1s behind; events have waited for it for 10s late"}, m.out())
		require.Equal(t, 10, m.held)
		require.Equal(t, []string{"good0.8"}, m.feed(12, msg("good", 12, 12), msg("still", 12, 1), ends(wrong(-3600, msg("slow", 11, 11)))).out())
		require.Equal(t, []string{"fleet: host behind: still: its clock, or what it sends, is 11s behind; events have waited for it for 10s late"}, m.idle(12).out())
		for s := 13.0; s < 30; s++ {
			require.Empty(t, m.feed(s, msg("good", uint64(s), s), msg("still", uint64(s), 1)).out(), "it was told of")
		}
		require.Len(t, m.feed(30, msg("still", 30, 30)).out(), 9)
		require.False(t, m.backlog().waits())
		for s := 31.0; s < 42; s++ {
			m.feed(s, msg("good", uint64(s-1), s, s-0.5), msg("still", uint64(s), 30))
		}
		require.Equal(t, []string{"fleet: host behind: still: its clock, or what it sends, is 11s behind; events have waited for it for 10s"}, m.out(), "it is so again")
		require.Equal(t, uint64(3), m.result.Gaps[HostBehind])
	})
}

// A host whose events change goes on in another recording, of which the others wait. Too many are
// not believed.
func TestEventsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMerged(t, ReadOptions{Hosts: []string{"a", "b"}})
		of := func(n uint64, event string) *message {
			return &message{Host: "a", Boot: "boot", place: place{Log: "log", Sequence: n, First: 1}, Head: true, data: head(event)}
		}
		m.feed(1, msg("b", 1, 1, 0.8), of(1, "events"), since(0, msg("a", 2, 0.5, 0.4)), of(3, "events"), of(4, "other"), since(0.5, msg("a", 5, 0.7, 0.6)))
		require.Equal(t, []string{"a0.4", "a0.6"}, m.out())
		require.Equal(t, "a#2", m.events[1].Source)
		require.Equal(t, []string{"b0.8"}, m.feed(2, of(6, "events"), since(0.7, msg("a", 7, 2, 1.5))).out())
		require.Equal(t, []*perfdata.Live{m.lives["a"], m.lives["a#2"]}, m.hosts["a"].lives)
		require.Empty(t, m.result.Gaps)
		for i := range uint64(maxEvents) {
			m.feed(3, of(8+i, fmt.Sprint("e", i)))
		}
		require.Len(t, m.hosts["a"].lives, maxEvents)
		require.Equal(t, uint64(2), m.result.Malformed)
	})
}

// Everything that is not known is said.
func TestUnknown(t *testing.T) {
	from, to := at(0), at(60)
	known := Host{From: from, To: to, Events: 1}
	for want, c := range map[string]struct {
		since time.Time
		host  Host
		gaps  map[string]uint64
	}{
		"":                            {host: known, gaps: map[string]uint64{HostSilent: 1, HostBehind: 1}},
		"[a: nothing has come of it]": {},
		"[a: unknown before " + localTime(from) + "]": {host: known, since: from.Add(-1)},
		"[a: silent since " + localTime(to) + "]":     {host: Host{From: from, To: to, Silent: true}, since: from},
		"[gaps of unknown hosts: 1]":                  {host: known, gaps: map[string]uint64{Malformed: 1}},
		"[a: lost: 3 a: gaps: 2]":                     {host: Host{From: from, To: to, Gaps: 2, Lost: 3}, gaps: map[string]uint64{AgentDown: 2}},
	} {
		r := Result{Hosts: map[string]Host{"a": c.host}, Gaps: c.gaps}
		r.explain(c.since)
		require.Equal(t, want, map[bool]string{false: fmt.Sprint(r.Unknown)}[len(r.Unknown) == 0])
	}
	var nobody Result
	nobody.explain(time.Time{})
	require.Equal(t, []string{"no host has been heard of"}, nobody.Unknown)
}
