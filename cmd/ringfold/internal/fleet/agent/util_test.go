package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// programEnv makes the test binary an agent, which TestKilled kills. It is the URL of the broker.
const programEnv = "FLEET_TEST_AGENT"

func TestMain(m *testing.M) {
	if url := os.Getenv(programEnv); url != "" {
		nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
		if err == nil {
			s := lifecycle.NewSimulation(lifecycle.SimulationOptions{Rate: 5000})
			_, err = Run(context.Background(), Options{Host: "host-1", Source: s, SpoolPath: os.Args[1], Conn: nc})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leak.Main(m)
}

// nowhere is a URL where no broker ever is.
const nowhere = "nats://127.0.0.1:1"

// fleet is a broker with the stream of agents, and what tests ask of it.
type fleet struct {
	t testing.TB
	*broker.Server
	nc *nats.Conn
	js jetstream.JetStream
}

// newFleet starts a broker, and stops it when the test ends.
func newFleet(t testing.TB) *fleet {
	t.Helper()
	s, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	f := &fleet{t: t, Server: s, nc: connect(t, s.URL())}
	f.js = makeStream(t, f.nc, 1)
	return f
}

// connect connects, and goes on trying for ever.
func connect(t testing.TB, url string, o ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(o, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true))...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// makeStream makes the stream, once the servers are able to.
func makeStream(t testing.TB, nc *nats.Conn, replicas int) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	poll(func() bool {
		_, err := js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
			Name: "EVENTS", Subjects: []string{"EVENTS.>"}, Storage: jetstream.FileStorage, Replicas: replicas, Duplicates: 2 * time.Minute,
		})
		return err == nil
	})
	return js
}

// batches calls f with each batch that is published from now on.
func (f *fleet) batches(call func(*wire.Batch)) {
	sub, err := f.nc.Subscribe("EVENTS.>", func(m *nats.Msg) {
		if b, err := wire.Unmarshal(m.Data); err == nil {
			call(b)
		}
	})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { sub.Unsubscribe() })
	require.NoError(f.t, f.nc.Flush())
}

// made is a made-up host. Its rings have room for all that happens in a test: an agent that is slow
// loses nothing.
type made struct {
	*lifecycle.Simulation
	reader *perfbuf.Reader
}

func newMade(t testing.TB, rate float64, events uint64) *made {
	t.Helper()
	s := lifecycle.NewSimulation(lifecycle.SimulationOptions{Rate: rate, Events: events})
	r, err := s.Open(perfbuf.Options{RingBytes: 8 << 20})
	require.NoError(t, err)
	return &made{s, r}
}

func (m *made) Open(perfbuf.Options) (*perfbuf.Reader, error) { return m.reader, nil }

// wait waits until so many events have been read.
func (m *made) wait(n uint64) { poll(func() bool { return m.reader.Stats().Total().Samples >= n }) }

// run is an agent that runs in this process.
type run struct {
	t       testing.TB
	cancel  func()
	stats   Stats
	err     error
	ended   chan struct{}
	notesMu sync.Mutex
	notes   []string
}

func startAgent(t testing.TB, o Options) *run {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{t: t, cancel: cancel, ended: make(chan struct{})}
	if o.Host == "" {
		o.Host = "host-1"
	}
	if o.SpoolPath == "" {
		o.SpoolPath = filepath.Join(t.TempDir(), "spool")
	}
	if o.EndWait == 0 {
		o.EndWait = time.Hour
	}
	o.Note = r.note
	go func() {
		defer close(r.ended)
		r.stats, r.err = Run(ctx, o)
	}()
	t.Cleanup(func() { cancel(); <-r.ended })
	return r
}

func (r *run) note(text string) {
	r.t.Log(text)
	r.notesMu.Lock()
	defer r.notesMu.Unlock()
	r.notes = append(r.notes, text)
}

// end ends it in good order.
func (r *run) end() Stats {
	r.t.Helper()
	r.cancel()
	<-r.ended
	require.NoError(r.t, r.err)
	return r.stats
}

// told waits for a note that begins with what, and forgets it and those before it.
func (r *run) told(what string) {
	poll(func() bool {
		r.notesMu.Lock()
		defer r.notesMu.Unlock()
		at := slices.IndexFunc(r.notes, func(note string) bool { return strings.HasPrefix(note, what) })
		r.notes = r.notes[at+1:]
		return at >= 0
	})
}

// poll waits for something that comes by itself.
func poll(done func() bool) {
	for !done() {
		time.Sleep(time.Millisecond)
	}
}

// stored is all messages of the stream. A cluster may be choosing a leader.
func stored(t testing.TB, url string) (batches []*wire.Batch) {
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
	for uint64(len(batches)) < n {
		m, err := messages.Next()
		require.NoError(t, err)
		b, err := wire.Unmarshal(m.Data())
		require.NoError(t, err)
		require.Equal(t, wire.ID(b), m.Headers().Get(jetstream.MsgIDHeader))
		require.Equal(t, wire.Subject("EVENTS", b.Host), m.Subject())
		batches = append(batches, b)
	}
	return batches
}

// history is a host's logs, put together.
type history struct {
	events uint64                     // without gaps
	gaps   map[wire.Gap_Reason]uint64 // the sum of their counts
	number map[wire.Gap_Reason]int    // how many gaps
	logs   [][]*wire.Batch            // of each run, in the order of their sequence numbers
}

// read checks what every log promises, whatever has failed: all sequence numbers once, events in
// the order of time, watermarks that never go back and hold. The logs are of one spool.
func read(t testing.TB, batches []*wire.Batch) history {
	t.Helper()
	h := history{gaps: map[wire.Gap_Reason]uint64{}, number: map[wire.Gap_Reason]int{}}
	slices.SortStableFunc(batches, func(a, b *wire.Batch) int { return int(a.Sequence) - int(b.Sequence) })
	last, watermark := uint64(0), uint64(0)
	for i, b := range batches {
		require.Equal(t, uint64(i+1), b.Sequence, "a hole or a duplicate")
		if b.Sequence == b.First {
			if i > 0 {
				require.Equal(t, batches[i-1].LogId, b.Prior)
			}
			h.logs = append(h.logs, nil)
			last, watermark = 0, b.Since
		}
		l := &h.logs[len(h.logs)-1]
		*l = append(*l, b)
		require.Equal(t, (*l)[0].LogId, b.LogId)
		require.Equal(t, watermark, b.Since, "what no batch covers")
		for _, e := range b.Events {
			at := b.BaseTime + e.Delta
			require.GreaterOrEqual(t, at, max(last, watermark), "order of time in %s", wire.ID(b))
			if last = at; e.Gap != nil {
				h.gaps[e.Gap.Reason] += e.Gap.Count
				h.number[e.Gap.Reason]++
				require.LessOrEqual(t, e.Gap.After, at)
				if e.Gap.Reason == wire.Gap_SPOOL_FULL {
					require.GreaterOrEqual(t, e.Gap.After, watermark, "batches before are complete")
				}
			} else {
				h.events++
			}
		}
		require.GreaterOrEqual(t, b.Watermark, watermark)
		watermark = b.Watermark
	}
	return h
}
