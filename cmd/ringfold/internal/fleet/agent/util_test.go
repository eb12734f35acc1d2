package agent

import (
	"context"
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
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		program()
		return
	}
	leak.Main(m)
}

// startBroker starts a server, and stops it when the test ends.
func startBroker(t testing.TB) *broker.Server {
	t.Helper()
	s, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// connect connects, and goes on trying for ever.
func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// makeStream makes the stream, once the servers are able to.
func makeStream(t testing.TB, nc *nats.Conn, replicas int) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for {
		_, err := js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
			Name: "EVENTS", Subjects: []string{"EVENTS.>"}, Storage: jetstream.FileStorage, Replicas: replicas, Duplicates: 2 * time.Minute,
		})
		if err == nil {
			return js
		}
		t.Log("making the stream: ", err)
	}
}

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

// told waits until a note begins with this, and forgets it and those before it.
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

// happened waits until so many things have happened, of which some may have found a ring full. It returns how many did not.
func happened(s *source.Simulated, n uint64) (written uint64) {
	var lost uint64
	poll(func() bool { written, lost = s.Counts(); return written+lost >= n })
	return written
}

// stored is all messages of the stream.
func stored(t testing.TB, url string) (batches []*wire.Batch) {
	t.Helper()
	js, err := jetstream.New(connect(t, url))
	require.NoError(t, err)
	ctx := context.Background()
	var stream jetstream.Stream
	for { // a cluster may be choosing a leader
		if stream, err = js.Stream(ctx, "EVENTS"); err == nil {
			break
		}
		t.Log("looking for the stream: ", err)
	}
	var c jetstream.Consumer
	poll(func() bool {
		if c, err = stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{}); err != nil {
			t.Log("reading the stream: ", err)
		}
		return err == nil
	})
	messages, err := c.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	for n := stream.CachedInfo().State.Msgs; uint64(len(batches)) < n; {
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

// read checks what every log promises, whatever has failed: all sequence numbers once, events in the order of time, watermarks that
// never go back and hold. The logs are of one spool.
func read(t testing.TB, batches []*wire.Batch) history {
	t.Helper()
	h := history{gaps: map[wire.Gap_Reason]uint64{}, number: map[wire.Gap_Reason]int{}}
	slices.SortStableFunc(batches, func(a, b *wire.Batch) int { return int(a.Sequence) - int(b.Sequence) })
	for i, b := range batches {
		require.Equal(t, uint64(i+1), b.Sequence, "a hole or a duplicate")
		if b.Sequence == b.First {
			if i > 0 {
				require.Equal(t, batches[i-1].LogId, b.Prior)
			}
			h.logs = append(h.logs, nil)
		}
		h.logs[len(h.logs)-1] = append(h.logs[len(h.logs)-1], b)
	}
	for _, l := range h.logs {
		last, watermark := uint64(0), l[0].Since
		for _, b := range l {
			require.Equal(t, l[0].LogId, b.LogId)
			require.Equal(t, watermark, b.Since, "what no batch speaks of")
			for _, e := range b.Events {
				at := b.BaseTime + e.Delta
				require.GreaterOrEqual(t, at, last, "order of time in %s", wire.ID(b))
				if b != l[0] { // what happens while it begins is there too
					require.GreaterOrEqual(t, at, watermark, "an event below the watermark in %s", wire.ID(b))
				}
				last = at
				if e.Gap != nil {
					h.gaps[e.Gap.Reason] += e.Gap.Count
					h.number[e.Gap.Reason]++
				} else {
					h.events++
				}
			}
			require.GreaterOrEqual(t, b.Watermark, watermark)
			watermark = b.Watermark
		}
	}
	return h
}
