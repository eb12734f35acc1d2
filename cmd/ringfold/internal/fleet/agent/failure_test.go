package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/require"
)

// ship has an agent ship n events, while something is done, and returns what has come.
func ship(t *testing.T, o Options, n uint64, url string, meanwhile func(a *run, s *made)) (history, Stats) {
	t.Helper()
	s := newMade(t, 10_000, n)
	o.Source, o.BatchDelay = s, 5*time.Millisecond // many of them
	a := startAgent(t, o)
	meanwhile(a, s)
	s.wait(n)
	stats := a.end()
	batches := stored(t, url)
	h := read(t, batches)
	require.Equal(t, n, stats.Events)
	require.Zero(t, h.gaps[wire.Gap_RING_FULL])
	require.Equal(t, n, h.events+h.gaps[wire.Gap_SPOOL_FULL], "each event is there, or missing and counted")
	require.Equal(t, stats.Lost[wire.Gap_SPOOL_FULL], h.gaps[wire.Gap_SPOOL_FULL])
	require.Equal(t, stats.Batches, uint64(len(batches)))
	require.Equal(t, stats.Published, stats.Batches)
	require.Zero(t, stats.SpoolBytes)
	return h, stats
}

// The broker is stopped and comes back, at the same place with what it had: nothing is lost,
// nothing is there twice.
func TestBrokerRestarts(t *testing.T) {
	b := newFleet(t)
	o := Options{Conn: connect(t, b.URL()), AckWait: 200 * time.Millisecond}
	h, stats := ship(t, o, 20_000, b.URL(), func(a *run, s *made) {
		for i := range uint64(4) {
			s.wait((i + 1) * 4000)
			b.Stop()
			s.wait((i+1)*4000 + 1000) // it is away for a while
			a.told("publishing: ")
			require.NoError(t, b.Restart())
			a.told("publishing again")
		}
	})
	require.Zero(t, h.gaps[wire.Gap_SPOOL_FULL])
	require.Positive(t, stats.Retried)
}

// The broker is away for longer than the spool holds: what is lost is counted, to the last event,
// and the rings are read all the time.
func TestSpoolFull(t *testing.T) {
	b := newFleet(t)
	b.Stop() // for the first events
	o := Options{Conn: connect(t, b.URL()), SpoolBytes: 64 << 10, AckWait: 200 * time.Millisecond}
	h, _ := ship(t, o, 20_000, b.URL(), func(_ *run, s *made) {
		s.wait(8000) // the spool holds 1500
		require.NoError(t, b.Restart())
		s.wait(10_000)
		b.Stop()
		s.wait(18_000)
		require.NoError(t, b.Restart())
	})
	require.Positive(t, h.gaps[wire.Gap_SPOOL_FULL])
	require.Positive(t, h.number[wire.Gap_SPOOL_FULL])
}

// It ends while the spool is full: the last batch has room all the same, and says what is missing.
func TestEndsWithSpoolFull(t *testing.T) {
	for _, room := range []int64{64 << 10, 1} {
		path := filepath.Join(t.TempDir(), "spool")
		const n = 8000
		s := newMade(t, 10_000, n)
		a := startAgent(t, Options{Source: s, Conn: connect(t, nowhere), SpoolPath: path, SpoolBytes: room, BootID: "b", EndWait: time.Millisecond})
		s.wait(n)
		stats := a.end()
		require.LessOrEqual(t, stats.SpoolBytes, room+1<<10)
		require.Positive(t, stats.Lost[wire.Gap_SPOOL_FULL])

		batches := spooled(t, path)
		h := read(t, batches)
		require.Equal(t, uint64(n), h.events+h.gaps[wire.Gap_SPOOL_FULL])
		require.Equal(t, stats.Lost[wire.Gap_SPOOL_FULL], h.gaps[wire.Gap_SPOOL_FULL])
		require.True(t, batches[len(batches)-1].End)
	}
}

// A broker that takes longer than the agent waits has everything twice, and keeps it once.
func TestSlowBroker(t *testing.T) {
	b := newFleet(t)
	o := Options{Conn: connect(t, b.URL(), nats.SetCustomDialer(slow{})), AckWait: 10 * time.Millisecond, Window: 4}
	_, stats := ship(t, o, 5000, b.URL(), func(*run, *made) {})
	require.Positive(t, stats.Retried)
}

// slow dials connections on which no answer comes from when the first batch is sent until it is
// sent again.
type slow struct{}

func (slow) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &slowConn{Conn: c, again: make(chan struct{})}, err
}

type slowConn struct {
	net.Conn
	times atomic.Int64 // that the first batch was sent
	again chan struct{}
}

func (c *slowConn) Write(b []byte) (int, error) {
	for range bytes.Count(b, []byte("/1\r\n")) { // as the header ends that has its id
		if c.times.Add(1) == 2 {
			close(c.again)
		}
	}
	return c.Conn.Write(b)
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.times.Load() == 1 {
		<-c.again
	}
	return n, err
}

// The leader of a stream of three servers goes: another one takes its place, and nothing is lost,
// nothing is there twice.
func TestClusterLosesLeader(t *testing.T) {
	servers, err := broker.StartCluster(t.TempDir(), 3)
	require.NoError(t, err)
	var urls []string
	for _, s := range servers {
		defer s.Close()
		urls = append(urls, s.URL())
	}
	url := strings.Join(urls, ",")
	makeStream(t, connect(t, url), 3)
	ship(t, Options{Conn: connect(t, url), AckWait: 500 * time.Millisecond}, 20_000, url, func(_ *run, s *made) {
		s.wait(5000)
		leads := func(s *broker.Server) bool { return s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, "EVENTS") }
		leader := -1
		poll(func() bool { leader = slices.IndexFunc(servers, leads); return leader >= 0 })
		servers[leader].Stop()
	})
}

// A spool that was published already is published again, as after a crash: the stream has it once.
func TestPublishedTwice(t *testing.T) {
	b := newFleet(t)
	dir := t.TempDir()
	s := newMade(t, 5000, 500)
	a := startAgent(t, Options{Source: s, BootID: "b", SpoolPath: filepath.Join(dir, "spool"), Conn: connect(t, nowhere), EndWait: time.Millisecond})
	s.wait(500)
	stats := a.end()
	file, err := os.ReadFile(filepath.Join(dir, "spool"))
	require.NoError(t, err)
	for range 2 {
		path := filepath.Join(dir, "copy")
		require.NoError(t, os.WriteFile(path, file, 0o600))
		sp, err := spool.Open(path)
		require.NoError(t, err)
		require.Equal(t, stats.Batches, publishAll(t, b.nc, sp).acknowledged)
	}
	require.Equal(t, uint64(500), read(t, stored(t, b.URL())).events)
}

// publisherOf makes a publisher for a spool.
func publisherOf(t *testing.T, nc *nats.Conn, sp *spool.Spool) *publisher {
	t.Helper()
	o, err := Options{Host: "host-1", Conn: nc}.withDefaults()
	require.NoError(t, err)
	return newPublisher(o, sp, newQueue(sp, o.SpoolBytes, o.Note))
}

// publishAll publishes what a spool has, and closes it.
func publishAll(t *testing.T, nc *nats.Conn, sp *spool.Spool) *publisher {
	t.Helper()
	p := publisherOf(t, nc, sp)
	p.finish()
	require.NoError(t, p.run(t.Context()))
	require.Zero(t, sp.Bytes())
	require.Zero(t, p.queue.used.Load(), "room that is not given back")
	require.NoError(t, sp.Close())
	return p
}

// spooled is what is in the spool of an agent that has ended.
func spooled(t *testing.T, path string) (batches []*wire.Batch) {
	t.Helper()
	sp, err := spool.Open(path)
	require.NoError(t, err)
	defer sp.Close()
	for at := uint64(0); ; {
		e, ok, err := sp.Next(at)
		require.NoError(t, err)
		if !ok {
			return batches
		}
		data, err := wire.AppendPlace(e.Data, &wire.Batch{LogId: e.Log.ID, Sequence: e.Position, First: e.Log.First})
		require.NoError(t, err)
		b, err := wire.Unmarshal(data)
		require.NoError(t, err)
		batches, at = append(batches, b), e.Position
	}
}

// A copy of an agent that runs on elsewhere, as of a virtual machine, publishes other batches under
// the same names. JetStream takes them for the same ones, and drops them: the agent goes on with
// another log.
func TestCopyRuns(t *testing.T) {
	b := newFleet(t)
	path := filepath.Join(t.TempDir(), "spool")
	sp, err := spool.Open(path)
	require.NoError(t, err)
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprint("boot ", i))
		data, err := wire.Marshal(&wire.Batch{Host: "host-1", BootId: want[i]})
		require.NoError(t, err)
		require.NoError(t, sp.Append(data))
	}
	e, _, err := sp.Next(0)
	require.NoError(t, err)
	copied := &wire.Batch{Host: "host-1", BootId: "other", LogId: e.Log.ID, Sequence: 7, First: 1}
	data, err := wire.Marshal(copied)
	require.NoError(t, err)
	_, err = b.js.Publish(t.Context(), "EVENTS.host-1", data, jetstream.WithMsgID(wire.ID(copied)))
	require.NoError(t, err)
	p := publishAll(t, b.nc, sp)
	require.Equal(t, uint64(40), p.acknowledged)
	require.Positive(t, p.retried)
	var got []string
	ids := map[string]bool{}
	for _, b := range stored(t, b.URL()) {
		if b.BootId != "other" && !slices.Contains(got, b.BootId) { // those sent with the one that was dropped come again, in the new log
			got = append(got, b.BootId)
			ids[b.LogId] = true
		}
	}
	require.ElementsMatch(t, want, got)
	require.Len(t, ids, 2)
}

// An answer counts for the log in which a batch was sent. That the stream has had a batch is no
// news once it was sent twice.
func TestAnswers(t *testing.T) {
	b := newFleet(t)
	sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"))
	require.NoError(t, err)
	defer sp.Close()
	p := publisherOf(t, b.nc, sp)
	answer := func(attempt, position int, duplicate bool) {
		p.answer(&nats.Msg{Subject: fmt.Sprint(p.inbox, ".", attempt, ".", position), Data: fmt.Appendf(nil, `{"stream":"EVENTS","duplicate":%v}`, duplicate)})
	}
	under := func() (positions []uint64) {
		for _, s := range p.flight {
			positions = append(positions, s.Position)
		}
		return positions
	}
	require.NoError(t, sp.Append([]byte("1"), []byte("2")))
	poll(b.nc.IsConnected)
	require.NoError(t, p.fill())
	p.again(t.Context())
	require.NoError(t, sp.Append([]byte("3"), []byte("4"), []byte("5")))
	require.NoError(t, p.fill())
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, under())
	first := p.flight[0].Log
	answer(1, 1, true)
	require.NoError(t, p.failure)
	require.Equal(t, []uint64{2, 3, 4, 5}, under())

	answer(2, 5, false)
	answer(2, 4, true) // it was sent once
	require.ErrorContains(t, p.failure, "batch 4 of log "+first.ID+" was published by another agent")
	second := p.flight[2].Log
	require.Equal(t, spool.Log{ID: second.ID, First: 4, Prior: first.ID}, second)
	require.Equal(t, []spool.Log{first, first, second, second}, []spool.Log{p.flight[0].Log, p.flight[1].Log, p.flight[2].Log, p.flight[3].Log})
	answer(2, 2, false)
	answer(2, 3, false)
	answer(2, 4, false)
	require.Equal(t, []uint64{4, 5}, under(), "they were of the first log")
	p.again(t.Context())
	answer(2, 4, false)
	require.Equal(t, []uint64{4, 5}, under())
	answer(3, 4, false)
	require.Equal(t, []uint64{5}, under(), "of the second log it is not there")
	answer(3, 5, false)
	require.Empty(t, under())
}

// What arrives somewhere is not stored yet: without an acknowledgement it stays in the spool, for
// the next run.
func TestUnacknowledgedStays(t *testing.T) {
	b := newFleet(t)
	require.NoError(t, b.js.DeleteStream(t.Context(), "EVENTS"))
	var received atomic.Int64
	b.batches(func(*wire.Batch) { received.Add(1) })
	path := filepath.Join(t.TempDir(), "spool")
	a := startAgent(t, Options{Source: newMade(t, 1000, 0), Conn: connect(t, b.URL()), SpoolPath: path, BootID: "b", Window: 100, BatchDelay: time.Millisecond, EndWait: time.Millisecond})
	poll(func() bool { return received.Load() >= 2*deleteEvery })
	stats := a.end()
	require.Zero(t, stats.Acknowledged)
	require.Equal(t, stats.Batches, uint64(len(spooled(t, path))))
}

// Without a stream, batches wait until there is one.
func TestNoStreamYet(t *testing.T) {
	b := newFleet(t)
	require.NoError(t, b.js.DeleteStream(t.Context(), "EVENTS"))
	ship(t, Options{Conn: connect(t, b.URL())}, 2000, b.URL(), func(_ *run, s *made) {
		s.wait(1000)
		makeStream(t, b.nc, 1)
	})
}

// The disk fails: it is tried again, and what has to be given up in the end is an error.
func TestDiskFails(t *testing.T) {
	sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"))
	require.NoError(t, err)
	require.NoError(t, sp.Close()) // a closed file takes no more
	ctx, cancel := context.WithCancel(t.Context())
	var q *queue
	q = newQueue(sp, 1000, func(text string) {
		require.Contains(t, text, "trying on")
		require.True(t, q.push(nil, true), "while it fails")
		cancel()
	})
	require.True(t, q.push(make([]byte, 900), false))
	require.False(t, q.push(make([]byte, 101), false), "no room")
	require.True(t, q.push(make([]byte, 101), true), "it must")
	require.ErrorContains(t, q.run(ctx), "3 batches are lost: writing to the spool")

	var notes []string
	failures := 2
	require.NoError(t, persist(t.Context(), func(text string) { notes = append(notes, text) }, "again", func() error {
		if failures--; failures >= 0 {
			return io.EOF
		}
		return nil
	}))
	require.Equal(t, []string{"EOF: trying on", "again"}, notes)
}

// BenchmarkShip compares batches with a message for each event, from the decoded event to the
// acknowledgement.
func BenchmarkShip(b *testing.B) {
	js := newFleet(b).js
	event := func(i int) *wire.Event {
		return &wire.Event{Kind: wire.Event_EXEC, Delta: uint64(i), Cpu: 1, Pid: 1234, Tid: 1234, Comm: "cc1", Detail: "/usr/lib/gcc/cc1"}
	}
	for name, events := range map[string]int{"batches": mostEvents, "events": 1} {
		b.Run(name, func(b *testing.B) {
			var acks []jetstream.PubAckFuture
			sequence := uint64(0)
			for i := 0; i < b.N; i += events {
				sequence++
				batch := &wire.Batch{Host: "h", BootId: "b", LogId: nats.NewInbox(), Sequence: sequence}
				for j := range min(events, b.N-i) {
					batch.Events = append(batch.Events, event(j))
				}
				data, err := wire.Marshal(batch)
				require.NoError(b, err)
				ack, err := js.PublishMsgAsync(&nats.Msg{Subject: "EVENTS.h", Data: data, Header: nats.Header{jetstream.MsgIDHeader: {wire.ID(batch)}}})
				require.NoError(b, err)
				if acks = append(acks, ack); len(acks) == 16 {
					<-acks[0].Ok()
					acks = acks[1:]
				}
			}
			for _, ack := range acks {
				<-ack.Ok()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
