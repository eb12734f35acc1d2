package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// All that happens is in the log, which begins with a head, has another after a while, and ends. It
// is a recording, also for perf.
func TestPublishes(t *testing.T) {
	leak.Check(t)
	s := start(t)
	nc := connect(t, s.URL())
	reading := clock.Reading{Offset: -7, Error: 3}
	r := publish(t, nc, SinkOptions{Host: "web.1", Clock: func() clock.Reading { return reading }, AckWait: time.Hour}, newMade(5000, 3000))
	r.wait(1000)
	r.sink.mu.Lock()
	r.sink.headAt = r.sink.headAt.Add(-headEvery)
	r.sink.mu.Unlock()
	r.wait(3000)
	before := perfbuf.Now()
	stats := r.end()
	all := stored(t, s.URL())
	h := read(t, all)
	require.Equal(t, uint64(3000), h.events)
	require.Empty(t, h.lost)
	require.Len(t, h.logs, 1)
	require.Equal(t, []uint64{stats.Messages, stats.Messages, 0}, []uint64{uint64(len(all)), stats.Acknowledged, uint64(stats.SpoolBytes)})
	heads := 0
	for i, m := range h.logs[0] {
		require.Equal(t, i == len(all)-1, m.End)
		if m.Head {
			heads++
			continue
		}
		require.Equal(t, reading, clock.Reading{Offset: m.Offset, Error: m.Error})
		require.LessOrEqual(t, len(m.data), mostBatch)
	}
	require.Equal(t, 2, heads)
	require.GreaterOrEqual(t, all[len(all)-1].Through, before, "the log covers the time until it ends")
	require.Empty(t, r.notes)
	nc.Close()

	out, err := exec.Command(kerneltest.RequireCommand(t, "perf"), "script", "-i", h.files[0], "-F", "cpu,time,event").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, 3000, strings.Count(string(out), " events:"))
}

// Where nothing happens, rounds go on.
func TestHeartbeats(t *testing.T) {
	s := start(t)
	r := publish(t, connect(t, s.URL()), SinkOptions{}, newMade(1e-9, 0))
	poll(func() bool { return r.sink.queue.appended.Load() >= 4 })
	r.end()
	last := uint64(0)
	for _, m := range stored(t, s.URL()) {
		if !m.Head {
			require.Greater(t, m.Through, last)
			require.LessOrEqual(t, m.Through, perfbuf.Now())
			last = m.Through
		}
	}
}

// ship has a host publish n events, while something is done, and returns what has come.
func ship(t *testing.T, nc *nats.Conn, url string, o SinkOptions, n uint64, meanwhile func(*run)) (history, SinkStats) {
	t.Helper()
	r := publish(t, nc, o, newMade(10_000, n))
	meanwhile(r)
	r.wait(n)
	stats := r.end()
	all := stored(t, url)
	h := read(t, all)
	require.Equal(t, n, r.rec.Stats().Samples)
	require.Equal(t, n, h.events+h.lost[SpoolFull], "each event is there, or missing and counted")
	require.Equal(t, stats.SpoolFull, h.lost[SpoolFull])
	require.Zero(t, h.lost[""])
	require.Equal(t, []uint64{uint64(len(all)), stats.Messages, 0}, []uint64{stats.Messages, stats.Published, uint64(stats.SpoolBytes)})
	return h, stats
}

// The broker is stopped and comes back, at the same place with what it had: nothing is lost,
// nothing is there twice.
func TestBrokerRestarts(t *testing.T) {
	s := start(t)
	h, _ := ship(t, connect(t, s.URL()), s.URL(), SinkOptions{AckWait: 200 * time.Millisecond}, 20_000, func(r *run) {
		for i := range uint64(3) {
			r.wait((i + 1) * 4000)
			s.Stop()
			r.wait((i+1)*4000 + 1000) // it is away for a while
			r.told("publishing: ")
			require.NoError(t, s.Restart())
			r.told("publishing again")
		}
	})
	require.Zero(t, h.lost[SpoolFull])
}

// The broker is away for longer than the spool holds: what is lost is counted, to the last event,
// and the rings are read all the time.
func TestSpoolFull(t *testing.T) {
	s := start(t)
	s.Stop() // for the first events
	h, _ := ship(t, connect(t, s.URL()), s.URL(), SinkOptions{SpoolBytes: 400 << 10, AckWait: 200 * time.Millisecond}, 20_000, func(r *run) {
		r.wait(8000)
		require.NoError(t, s.Restart())
		r.wait(10_000)
		s.Stop()
		r.wait(18_000)
		require.NoError(t, s.Restart())
	})
	require.Positive(t, h.lost[SpoolFull])
}

// spooled is what is in a spool.
func spooled(t *testing.T, path string) (all []*message) {
	t.Helper()
	sp, err := spool.Open(path)
	require.NoError(t, err)
	defer sp.Close()
	for at := uint64(0); ; {
		e, ok, err := sp.Next(at)
		require.NoError(t, err)
		if !ok {
			return all
		}
		m, err := decode(e.Data)
		require.NoError(t, err)
		m.place = place{Log: e.Log.ID, Sequence: e.Position, First: e.Log.First, Prior: e.Log.Prior}
		all, at = append(all, &m), e.Position
	}
}

// It ends while the spool is full: the last message has room all the same, and says what is missing.
func TestEndsWithSpoolFull(t *testing.T) {
	for _, room := range []cli.Size{400 << 10, 1} {
		path := filepath.Join(t.TempDir(), "spool")
		const n = 8000
		r := publish(t, connect(t, nowhere), SinkOptions{Spool: path, SpoolBytes: room, EndWait: time.Millisecond}, newMade(10_000, n))
		r.wait(n)
		stats := r.end()
		require.LessOrEqual(t, stats.SpoolBytes, int64(room+4<<10))
		require.Positive(t, stats.SpoolFull)
		all := spooled(t, path)
		h := read(t, all)
		require.Equal(t, uint64(n), h.events+h.lost[SpoolFull])
		require.Equal(t, stats.SpoolFull, h.lost[SpoolFull])
		require.True(t, all[len(all)-1].End)
	}
}

// What a full spool loses: events are counted, all else that says something is missing is kept as far
// as there is room, and then as a sum.
func TestLose(t *testing.T) {
	loss := func(typ, size, count int, n uint64) []byte { // at 50
		b := make([]byte, size)
		binary.NativeEndian.PutUint32(b, uint32(typ))
		binary.NativeEndian.PutUint16(b[6:], uint16(size))
		binary.NativeEndian.PutUint64(b[count:], n)
		binary.NativeEndian.PutUint64(b[size-24:], 50)
		return b
	}
	round := make([]byte, 8)
	round[0], round[6] = 68, 8
	events := append(sample(sample(nil, 10, "a"), 20, "b"), round...)
	corrupt := sample(nil, 30, "why")
	corrupt[8] = 2
	kept := slices.Concat(loss(typeLost, 48, 16, 1), loss(typeLostSamples, 40, 8, 1), corrupt, perfdata.Gap{Reason: "x", Count: 7, Time: 40}.Append(nil))
	s := &Sink{corrupt: corruptID(head("events")), records: slices.Concat(events, kept)}
	s.lose()
	require.Equal(t, []uint64{2, 2, 50}, []uint64{s.lost, s.untold, s.lostAt})
	require.True(t, bytes.Equal(kept, s.carry))
	for s.untold == 2 {
		s.records = append(s.records, loss(typeLost, 48, 16, 5)...)
		s.lose()
	}
	require.Equal(t, uint64(7), s.untold)
	require.LessOrEqual(t, len(s.carry), mostCarry)
}

// A broker that takes longer than one waits has everything twice, and keeps it once.
func TestSlowBroker(t *testing.T) {
	s := start(t)
	_, stats := ship(t, connect(t, s.URL(), nats.SetCustomDialer(slow{})), s.URL(), SinkOptions{AckWait: 10 * time.Millisecond}, 5000, func(*run) {})
	require.Positive(t, stats.Retried)
}

// slow dials connections on which no answer comes from when the first message is sent until it is
// sent again. Then each takes longer than the first tries wait.
type slow struct{}

func (slow) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &slowConn{Conn: c, again: make(chan struct{})}, err
}

type slowConn struct {
	net.Conn
	times atomic.Int64 // that the first message was sent
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
	if c.times.Load() > 0 {
		<-c.again
		time.Sleep(30 * time.Millisecond)
	}
	return n, err
}

// The leader of a stream of three servers goes: another one takes its place, and nothing is lost,
// nothing is there twice.
func TestClusterLosesLeader(t *testing.T) {
	// Each must know all others from the start, as the first leader counts them.
	var routes []*url.URL
	for range 3 {
		kept := start(t)
		kept.Stop()
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", kept.Port())})
	}
	var servers []*broker.Server
	var urls []string
	for i, at := range routes {
		port, err := strconv.Atoi(at.Port())
		require.NoError(t, err)
		s := start(t, func(o *server.Options) {
			o.ServerName, o.Routes = fmt.Sprint("fleet-", i), routes
			o.Cluster = server.ClusterOpts{Name: "fleet", Host: "127.0.0.1", Port: port}
		})
		servers, urls = append(servers, s), append(urls, s.URL())
	}
	all := strings.Join(urls, ",")
	ship(t, connect(t, all), all, SinkOptions{Replicas: 3, AckWait: 500 * time.Millisecond}, 10_000, func(r *run) {
		r.wait(5000)
		leads := func(s *broker.Server) bool { return s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, "EVENTS") }
		leader := -1
		poll(func() bool { leader = slices.IndexFunc(servers, leads); return leader >= 0 })
		servers[leader].Stop()
	})
}

// A host that is started again goes on where its spool has got to, with a new log. It then publishes
// what it could not before, also of another boot. Two cannot have the same spool.
func TestStartedAgain(t *testing.T) {
	s := start(t)
	path := filepath.Join(t.TempDir(), "spool")
	for i := range 3 {
		url, o := s.URL(), SinkOptions{Boot: fmt.Sprint(i / 2), Spool: path}
		if i == 1 {
			url, o.EndWait = nowhere, time.Millisecond
		}
		r := publish(t, connect(t, url), o, newMade(5000, 500))
		_, err := newSink(r.sink.conn, "EVENTS", SinkOptions{Spool: path})
		require.ErrorContains(t, err, "is in use by another agent")
		r.wait(500)
		require.Equal(t, i == 1, r.end().SpoolBytes > 0)
	}
	h := read(t, stored(t, s.URL()))
	require.Equal(t, uint64(1500), h.events)
	require.Len(t, h.logs, 3)
	for i, l := range h.logs {
		require.Equal(t, fmt.Sprint(i/2), l[0].Boot)
		require.True(t, l[len(l)-1].End)
		if i > 0 {
			require.Greater(t, l[1].Since, h.logs[i-1][len(h.logs[i-1])-1].Through)
		}
	}
}

// A killed host leaves its spool. The next one goes on there: nothing that was acknowledged or on
// disk is doubled or missing.
func TestKilled(t *testing.T) {
	s := start(t)
	path := filepath.Join(t.TempDir(), "spool")
	const kills = 3
	before := 0
	for range kills {
		cmd := exec.Command("/proc/self/exe", path)
		cmd.Env = append(os.Environ(), programEnv+"="+s.URL())
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		poll(func() bool { return len(stored(t, s.URL())) >= before+5 })
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
		before = len(stored(t, s.URL()))
	}
	r := publish(t, connect(t, s.URL()), SinkOptions{Spool: path}, newMade(5000, 100))
	r.wait(100)
	r.end()
	h := read(t, stored(t, s.URL()))
	require.Len(t, h.logs, kills+1)
}

// What arrives somewhere is not stored yet: it stays in the spool, for the next run. That the stream
// cannot be ends the recording with the reason.
func TestRefused(t *testing.T) {
	none, err := broker.Start(t.TempDir(), func(o *server.Options) { o.JetStream = false })
	require.NoError(t, err)
	defer none.Close()
	nc := connect(t, none.URL())
	answer, err := nc.Subscribe("$JS.API.>", func(m *nats.Msg) {
		m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":403,"err_code":1,"description":"not for you"}}`))
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	path := filepath.Join(t.TempDir(), "spool")
	r := publish(t, connect(t, none.URL()), SinkOptions{Spool: path, EndWait: time.Millisecond}, newMade(1000, 0))
	require.ErrorContains(t, <-r.ended, "making stream EVENTS: ")
	r.ended <- nil
	require.Zero(t, r.stats.Acknowledged)
	require.Positive(t, r.stats.Messages)
	require.Len(t, spooled(t, path), int(r.stats.Messages))
	require.NoError(t, answer.Unsubscribe())

	_, err = Address{Stream: "EVENTS", Write: SinkOptions{Spool: "/proc/none/spool"}}.OpenSink()
	require.ErrorContains(t, err, "spool=FILE says where else the spool may be")
	_, err = Address{Stream: "EVENTS", Connection: Connection{URL: []string{nowhere}}, Write: SinkOptions{Spool: filepath.Join(path, "x"), Note: func(string) {}}}.OpenSink()
	require.Error(t, err)
}

// The disk fails: it is tried again, and what has to be given up in the end is an error.
func TestDiskFails(t *testing.T) {
	sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"))
	require.NoError(t, err)
	require.NoError(t, sp.Close()) // a closed file takes no more
	ctx, cancel := context.WithCancel(t.Context())
	var q *queue
	q = newQueue(sp, SinkOptions{SpoolBytes: 1000, Note: func(text string) {
		require.Contains(t, text, "trying on")
		require.True(t, q.push(nil, true), "while it fails")
		cancel()
	}})
	require.True(t, q.push(make([]byte, 900), false))
	require.False(t, q.push(make([]byte, 101), false), "no room")
	require.True(t, q.push(make([]byte, 101), true), "it must")
	require.ErrorContains(t, q.run(ctx), "3 messages are lost: writing to the spool")

	// A slow one: what waits for it is bounded, too.
	q = newQueue(sp, SinkOptions{SpoolBytes: 1 << 40})
	for range mostQueued >> 20 {
		require.True(t, q.push(make([]byte, 1<<20), false))
	}
	require.False(t, q.push(nil, false) && q.push(make([]byte, 1), false))

	// Whoever waits for the disk waits no longer once it is given up.
	ctx, cancel = context.WithCancel(t.Context())
	q = newQueue(sp, SinkOptions{SpoolBytes: 1 << 40, Wait: true, Note: func(string) { cancel() }})
	for range mostQueued >> 20 {
		require.True(t, q.push(make([]byte, 1<<20), false))
	}
	pushed := make(chan bool)
	go func() { pushed <- q.push(make([]byte, 1), false) }()
	require.Error(t, q.run(ctx))
	require.False(t, <-pushed)

	var notes []string
	failures := 2
	writing := retry{what: "writing", note: func(text string) { notes = append(notes, text) }}
	require.NoError(t, writing.do(t.Context(), func() error {
		if failures--; failures >= 0 {
			return io.EOF
		}
		return nil
	}))
	require.Equal(t, []string{"writing: EOF: trying on", "writing again"}, notes)
}
