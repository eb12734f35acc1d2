package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// programEnv makes the test binary a host that records, which TestKilled kills. It is the URL of the
// broker.
const programEnv = "FLEET_TEST_HOST"

func TestMain(m *testing.M) {
	if url := os.Getenv(programEnv); url != "" {
		a, err := Parse(url+"/EVENTS?host=h&spool="+os.Args[1], true)
		if err == nil {
			err = newMade(5000, 0).record(context.Background(), a, &Sink{}, func(*Sink) {})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Unsetenv("NATS_URL")
	leak.Main(m)
}

// nowhere is a URL where no broker ever is.
const nowhere = "nats://127.0.0.1:1"

// poll waits for something that comes by itself.
func poll(done func() bool) {
	for !done() {
		time.Sleep(time.Millisecond)
	}
}

func start(t testing.TB, change ...func(*server.Options)) *broker.Server {
	t.Helper()
	s, err := broker.Start(t.TempDir(), change...)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// connect connects, and goes on trying for ever.
func connect(t testing.TB, url string, o ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(o, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true))...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// made is a made-up host. Its rings have room for all that happens in a test.
type made struct {
	*lifecycle.Simulation
	reader *perfbuf.Reader
	rec    *perfdata.Recorder
}

func newMade(rate float64, events uint64) *made {
	m := &made{Simulation: lifecycle.NewSimulation(lifecycle.SimulationOptions{Rate: rate, Events: events})}
	var err error
	if m.reader, err = m.Open(perfbuf.Options{RingBytes: 8 << 20}); err != nil {
		panic(err)
	}
	return m
}

// wait waits until so many events have been read.
func (m *made) wait(n uint64) { poll(func() bool { return m.reader.Stats().Total().Samples >= n }) }

// record publishes what happens until ctx is done or the sink fails, as "ringfold record" does.
func (m *made) record(ctx context.Context, a Address, sink *Sink, begun func(*Sink)) (err error) {
	defer m.Close()
	defer m.reader.Close()
	if sink.conn == nil {
		if sink, err = a.OpenSink(); err != nil {
			return err
		}
	}
	m.rec, err = perfdata.NewRecorder(sink, perfdata.Options{Events: []perfdata.EventInfo{{Name: "events"}}, BufferBytes: BufferBytes})
	if err != nil {
		return err
	}
	in, err := m.reader.Stream(perfbuf.StreamOptions{FlushEvery: Heartbeat})
	if err == nil {
		err = m.Attach()
	}
	if err != nil {
		return err
	}
	sink.Begin(m.Since())
	begun(sink)
	if err = m.rec.Run(ctx, in); ctx.Err() != nil && err == context.Cause(ctx) {
		err = nil
	}
	err = errors.Join(err, m.Detach(), in.Drain(context.Background(), m.rec.Record), m.rec.Close())
	return errors.Join(err, sink.Round(in.Watermark()))
}

// run is a host that publishes in this process.
type run struct {
	*made
	t      testing.TB
	sink   *Sink
	cancel func()
	ended  chan error
	stats  SinkStats

	mu    sync.Mutex
	notes []string
}

// publish has a host publish over a connection.
func publish(t testing.TB, nc *nats.Conn, o SinkOptions, m *made) *run {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{made: m, t: t, cancel: cancel, ended: make(chan error, 1)}
	o.Host, o.Note = cmp.Or(o.Host, "h"), r.note
	o.Spool, o.SpoolBytes = cmp.Or(o.Spool, filepath.Join(t.TempDir(), "spool")), cmp.Or(o.SpoolBytes, 256<<20)
	o.EndWait, o.MaxAge, o.MaxBytes, o.Replicas = cmp.Or(o.EndWait, time.Hour), time.Hour, 1<<30, cmp.Or(o.Replicas, 1)
	var err error
	r.sink, err = newSink(nc, "EVENTS", o)
	require.NoError(t, err)
	go func() {
		err := m.record(ctx, Address{}, r.sink, func(*Sink) {})
		stats, failed := r.sink.Close(err == nil)
		r.stats = stats
		r.ended <- errors.Join(err, failed)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.ended
	})
	return r
}

func (r *run) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

// told waits for a note that begins with what, and forgets it and those before it.
func (r *run) told(what string) {
	poll(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		at := slices.IndexFunc(r.notes, func(note string) bool { return strings.HasPrefix(note, what) })
		r.notes = r.notes[at+1:]
		return at >= 0
	})
}

// end ends it in good order.
func (r *run) end() SinkStats {
	r.t.Helper()
	r.cancel()
	err := <-r.ended
	r.ended <- nil
	require.NoError(r.t, err)
	return r.stats
}

// stored is all messages of the stream. A cluster may be choosing a leader.
func stored(t testing.TB, url string) (all []*message) {
	t.Helper()
	js, err := jetstream.New(connect(t, url))
	require.NoError(t, err)
	var n uint64
	var c jetstream.Consumer
	poll(func() bool {
		stream, err := js.Stream(context.Background(), "EVENTS")
		if err == nil {
			n = stream.CachedInfo().State.Msgs
			c, err = stream.OrderedConsumer(context.Background(), jetstream.OrderedConsumerConfig{})
		}
		return err == nil
	})
	messages, err := c.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	for uint64(len(all)) < n {
		got, err := messages.Next()
		require.NoError(t, err)
		m, err := parseMessage("EVENTS", got.Subject(), got.Headers().Get(headerName), got.Data())
		require.NoError(t, err)
		require.Equal(t, m.id(), got.Headers().Get(jetstream.MsgIDHeader))
		all = append(all, m)
	}
	return all
}

// history is what a host has published, with one spool.
type history struct {
	events uint64            // samples
	lost   map[string]uint64 // the sum of losses, by reason
	logs   [][]*message      // of each run, in the order of their sequence numbers
	files  []string          // of each, all that its messages have: perf.data
}

// read checks what every log promises, whatever has failed: all sequence numbers once, a head first,
// which begins perf.data, and that no time is left out.
func read(t testing.TB, messages []*message) history {
	t.Helper()
	h := history{lost: map[string]uint64{}}
	slices.SortStableFunc(messages, func(a, b *message) int { return cmp.Compare(a.Sequence, b.Sequence) })
	mark := uint64(0)
	for i, m := range messages {
		require.Equal(t, uint64(i+1), m.Sequence, "a hole or a duplicate")
		if m.Sequence == m.First {
			if i > 0 {
				require.Equal(t, messages[i-1].Log, m.Prior)
			}
			require.True(t, m.Head)
			h.logs = append(h.logs, nil)
			mark = 0
		}
		at := len(h.logs) - 1
		h.logs[at] = append(h.logs[at], m)
		require.Equal(t, h.logs[at][0].Log, m.Log)
		require.Equal(t, m.Sequence == m.First, strings.HasPrefix(string(m.data), "PERFILE2"))
		if m.Head {
			continue
		}
		require.True(t, mark == 0 || m.Since == mark, "what no message covers")
		mark = m.Through
	}
	for _, l := range h.logs {
		path := filepath.Join(t.TempDir(), "perf.data")
		var all []byte
		for _, m := range l {
			all = append(all, m.data...)
		}
		require.NoError(t, os.WriteFile(path, all, 0o600))
		h.files = append(h.files, path)
		r, err := perfdata.Open(path, perfdata.ReplayOptions{Event: "events", WallClock: true})
		require.NoError(t, err)
		stream, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		require.Equal(t, io.EOF, stream.Run(context.Background(), func(ev perfbuf.Event) error {
			require.False(t, ev.Late())
			if ev.Kind() == perfbuf.KindSample {
				h.events++
			} else {
				h.lost[ev.Reason()] += ev.Lost()
				require.LessOrEqual(t, ev.LostAfter(), ev.Time())
			}
			return nil
		}))
		require.NoError(t, r.Close())
		<-r.Done()
	}
	return h
}

func slurp(t testing.TB, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}
