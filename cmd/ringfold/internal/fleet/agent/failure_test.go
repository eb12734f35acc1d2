package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// counted is a host that counts what is read of it. Its rings have room for all that happens in a test: an agent that is slow loses nothing.
type counted struct {
	*source.Simulated
	read atomic.Uint64
}

func newCounted(events uint64) *counted {
	return &counted{Simulated: source.NewSimulated(source.SimulatedOptions{Rate: 10_000, Events: events, RingBytes: 8 << 20})}
}

func (c *counted) Decode(ev perfbuf.Event, e *wire.Event) error {
	c.read.Add(1)
	return c.Simulated.Decode(ev, e)
}

// wait waits until so many events have been read.
func (c *counted) wait(n uint64) { poll(func() bool { return c.read.Load() >= n }) }

// ship has an agent ship n events, while something is done, and returns what has come.
func ship(t *testing.T, o Options, n uint64, url func() string, meanwhile func(a *run, s *counted)) (history, Stats) {
	t.Helper()
	s := newCounted(n)
	o.Source = s
	if o.BatchDelay == 0 {
		o.BatchDelay = 5 * time.Millisecond // many of them
	}
	a := startAgent(t, o)
	meanwhile(a, s)
	s.wait(n)
	stats := a.end()
	batches := stored(t, url())
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

// The broker is stopped and comes back, at the same place with what it had: nothing is lost, nothing is there twice.
func TestBrokerRestarts(t *testing.T) {
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	o := Options{Conn: connect(t, b.URL()), AckWait: 200 * time.Millisecond}
	h, stats := ship(t, o, 20_000, b.URL, func(a *run, s *counted) {
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

// The broker is away for longer than the spool holds: what is lost is counted, to the last event, and the rings are read all the time.
func TestSpoolFull(t *testing.T) {
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	b.Stop() // for the first events
	o := Options{Conn: connect(t, b.URL()), SpoolBytes: 64 << 10, AckWait: 200 * time.Millisecond}
	h, stats := ship(t, o, 20_000, b.URL, func(_ *run, s *counted) {
		s.wait(8000) // the spool holds 1500
		require.NoError(t, b.Restart())
		s.wait(10_000)
		b.Stop()
		s.wait(18_000)
		require.NoError(t, b.Restart())
	})
	require.Positive(t, h.gaps[wire.Gap_SPOOL_FULL])
	require.Positive(t, h.number[wire.Gap_SPOOL_FULL])
	t.Log(h.gaps, h.number, stats)
}

// It ends while the spool is full: the last batch has room all the same, and says what is missing.
func TestEndsWithSpoolFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	const n = 8000
	s := newCounted(n)
	a := startAgent(t, Options{Source: s, Conn: connect(t, "nats://127.0.0.1:1"), SpoolPath: path, SpoolBytes: 64 << 10, BootID: "b", EndWait: time.Millisecond})
	s.wait(n)
	stats := a.end()
	require.LessOrEqual(t, stats.SpoolBytes, int64(65<<10))
	require.Positive(t, stats.Lost[wire.Gap_SPOOL_FULL])

	batches := spooled(t, path)
	h := read(t, batches)
	require.Equal(t, uint64(n), h.events+h.gaps[wire.Gap_SPOOL_FULL])
	require.Equal(t, stats.Lost[wire.Gap_SPOOL_FULL], h.gaps[wire.Gap_SPOOL_FULL])
	require.True(t, batches[len(batches)-1].End)
}

// A broker that takes longer than the agent waits has everything twice, and keeps it once.
func TestSlowBroker(t *testing.T) {
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	p := slowProxy(t, b.Addr().String())
	o := Options{Conn: connect(t, "nats://"+p), AckWait: 10 * time.Millisecond, Window: 4}
	_, stats := ship(t, o, 5000, b.URL, func(*run, *counted) {})
	require.Positive(t, stats.Retried)
}

// firstBatch is how a message begins that has it.
var firstBatch = regexp.MustCompile(`Nats-Msg-Id: ?\S+/1\r\n`)

// slowProxy is a connection to a server whose answers do not come from when the first batch is sent until it is sent again.
func slowProxy(t *testing.T, to string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		sent  []byte // up to the second time
		times int
	)
	again, over := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over); l.Close(); all.Wait() })
	sees := func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		if times < 2 {
			sent = append(sent, b...)
			if times = len(firstBatch.FindAll(sent, -1)); times >= 2 {
				close(again)
			}
		}
	}
	holds := func([]byte) {
		mu.Lock()
		waits := times == 1
		mu.Unlock()
		if waits {
			select {
			case <-again:
			case <-over:
			}
		}
	}
	pass := func(from, to net.Conn, look func([]byte)) {
		defer from.Close()
		defer to.Close()
		b := make([]byte, 16<<10)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			look(b[:n])
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			all.Go(func() { pass(in, out, sees) })
			all.Go(func() { pass(out, in, holds) })
		}
	})
	return l.Addr().String()
}

// The leader of a stream of three servers goes: another one takes its place, and nothing is lost, nothing is there twice.
func TestClusterLosesLeader(t *testing.T) {
	c, err := broker.StartCluster(t.Context(), t.TempDir(), 3)
	require.NoError(t, err)
	defer c.Stop()
	makeStream(t, connect(t, c.URL()), 3)
	o := Options{Conn: connect(t, c.URL()), AckWait: 500 * time.Millisecond}
	_, stats := ship(t, o, 20_000, c.URL, func(_ *run, s *counted) {
		s.wait(5000)
		var leader *broker.Server
		poll(func() bool { leader = c.Leader("EVENTS"); return leader != nil })
		leader.Stop()
	})
	t.Logf("%+v", stats)
}

// A spool that was published already is published again, as after a crash: the stream has it once.
func TestPublishedTwice(t *testing.T) {
	b := startBroker(t)
	nc := connect(t, b.URL())
	makeStream(t, nc, 1)
	dir := t.TempDir()
	s := source.NewSimulated(source.SimulatedOptions{Rate: 5000, Events: 500})
	a := startAgent(t, Options{Source: s, BootID: "b", SpoolPath: filepath.Join(dir, "spool"), Conn: connect(t, "nats://127.0.0.1:1"), EndWait: time.Millisecond})
	n := happened(s, 500)
	stats := a.end()
	file, err := os.ReadFile(filepath.Join(dir, "spool"))
	require.NoError(t, err)
	for range 2 {
		path := filepath.Join(dir, "copy")
		require.NoError(t, os.WriteFile(path, file, 0o600))
		sp, err := spool.Open(path)
		require.NoError(t, err)
		require.Equal(t, stats.Batches, publishAll(t, nc, sp).acknowledged)
	}
	require.Equal(t, n, read(t, stored(t, b.URL())).events)
}

// publishAll publishes what a spool has, and closes it.
func publishAll(t *testing.T, nc *nats.Conn, sp *spool.Spool) *publisher {
	t.Helper()
	o, err := Options{Host: "host-1", Source: new(source.Simulated), Conn: nc, SpoolPath: "x"}.effective()
	require.NoError(t, err)
	p := newPublisher(o, sp, newQueue(sp, o.SpoolBytes, o.Note))
	p.finish()
	require.NoError(t, p.run(t.Context()))
	require.Zero(t, sp.Bytes())
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

// An older copy of a spool that comes back, or runs elsewhere: what is new there is published, however well the stream knows its place.
func TestOlderSpool(t *testing.T) {
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	path := filepath.Join(t.TempDir(), "spool")
	var older []byte
	events := uint64(0)
	for i := range 3 {
		if i == 2 {
			require.NoError(t, os.WriteFile(path, older, 0o600))
		}
		s := source.NewSimulated(source.SimulatedOptions{Rate: 5000, Events: 300, Seed: uint64(i)})
		a := startAgent(t, Options{Source: s, SpoolPath: path, Conn: connect(t, b.URL())})
		happened(s, 300)
		events += a.end().Events
		if i == 0 {
			var err error
			older, err = os.ReadFile(path)
			require.NoError(t, err)
		}
	}
	logs := map[string][]*wire.Batch{}
	for _, b := range stored(t, b.URL()) {
		logs[b.LogId] = append(logs[b.LogId], b)
		for _, e := range b.Events {
			if e.Gap == nil {
				events--
			}
		}
	}
	require.Zero(t, events, "all are there")
	require.Len(t, logs, 3)
}

// A copy of an agent that runs on elsewhere, as of a virtual machine, publishes other batches under the same names. JetStream takes them
// for the same ones, and drops them: the agent goes on with another log.
func TestCopyRuns(t *testing.T) {
	b := startBroker(t)
	nc := connect(t, b.URL())
	js := makeStream(t, nc, 1)
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
	_, err = js.Publish(t.Context(), "EVENTS.host-1", data, jetstream.WithMsgID(wire.ID(copied)))
	require.NoError(t, err)
	p := publishAll(t, nc, sp)
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

// An answer counts for the log in which a batch was sent. That the stream has had a batch is no news once it was sent twice.
func TestAnswers(t *testing.T) {
	b := startBroker(t)
	sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"))
	require.NoError(t, err)
	defer sp.Close()
	o, err := Options{Host: "host-1", Source: new(source.Simulated), Conn: connect(t, b.URL()), SpoolPath: "x"}.effective()
	require.NoError(t, err)
	p := newPublisher(o, sp, newQueue(sp, o.SpoolBytes, o.Note))
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
	poll(o.Conn.IsConnected)
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

// What arrives somewhere is not stored yet: without an acknowledgement it stays in the spool, for the next run.
func TestUnacknowledgedStays(t *testing.T) {
	b := startBroker(t)
	nc := connect(t, b.URL())
	var received atomic.Int64
	sub, err := nc.Subscribe("EVENTS.>", func(*nats.Msg) { received.Add(1) }) // no stream
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	defer sub.Unsubscribe()
	path := filepath.Join(t.TempDir(), "spool")
	s := source.NewSimulated(source.SimulatedOptions{Rate: 1000})
	a := startAgent(t, Options{Source: s, Conn: connect(t, b.URL()), SpoolPath: path, BootID: "b", Window: 100, BatchDelay: time.Millisecond, EndWait: time.Millisecond})
	poll(func() bool { return received.Load() >= 2*deleteEvery })
	stats := a.end()
	require.Zero(t, stats.Acknowledged)
	require.Equal(t, stats.Batches, uint64(len(spooled(t, path))))
}

// Without a stream, batches wait until there is one.
func TestNoStreamYet(t *testing.T) {
	b := startBroker(t)
	nc := connect(t, b.URL())
	ship(t, Options{Conn: connect(t, b.URL())}, 2000, b.URL, func(_ *run, s *counted) {
		s.wait(1000)
		makeStream(t, nc, 1)
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
}

// BenchmarkShip compares batches with a message for each event, from the decoded event to the acknowledgement.
func BenchmarkShip(b *testing.B) {
	server := startBroker(b)
	nc := connect(b, server.URL())
	js := makeStream(b, nc, 1)
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
