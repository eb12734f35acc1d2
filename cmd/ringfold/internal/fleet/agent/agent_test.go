package agent

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/stretchr/testify/require"
)

// All that happens is in the log, and the log ends.
func TestShips(t *testing.T) {
	leak.Check(t)
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	s := source.NewSimulated(source.SimulatedOptions{Rate: 5000, Events: 3000})
	reading := clock.Reading{Offset: -7, Error: 3}
	a := startAgent(t, Options{Host: "web.1", Source: s, Conn: connect(t, b.URL()), Clock: func() clock.Reading { return reading }, AckWait: time.Hour})
	happened(s, 3000)
	stats := a.end()
	h := read(t, stored(t, b.URL()))
	n, lost := s.Counts()
	require.Equal(t, uint64(3000), n+lost)
	require.Equal(t, n, h.events)
	require.Equal(t, n, stats.Events)
	require.Equal(t, lost, h.gaps[wire.Gap_RING_FULL])
	require.Len(t, h.logs, 1)
	for _, l := range h.logs {
		for i, b := range l {
			require.Equal(t, i == len(l)-1, b.End)
			require.Equal(t, reading, clock.Reading{Offset: b.WallOffset, Error: b.WallError})
			require.LessOrEqual(t, len(b.Events), mostEvents)
		}
		require.Equal(t, stats.Batches, uint64(len(l)))
	}
	require.Equal(t, stats.Batches, stats.Acknowledged)
	require.Zero(t, stats.SpoolBytes)
	require.Empty(t, a.notes)
}

// Where nothing happens, watermarks go on.
func TestHeartbeats(t *testing.T) {
	b := startBroker(t)
	nc := connect(t, b.URL())
	makeStream(t, nc, 1)
	beats := make(chan *wire.Batch, 100)
	sub, err := nc.Subscribe("EVENTS.>", func(m *nats.Msg) {
		b, err := wire.Unmarshal(m.Data)
		if err != nil {
			return
		}
		select {
		case beats <- b:
		default: // there are enough
		}
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	defer sub.Unsubscribe()
	s := source.NewSimulated(source.SimulatedOptions{Rate: 1e-9})
	a := startAgent(t, Options{Source: s, Conn: connect(t, b.URL()), Heartbeat: time.Millisecond, AckWait: time.Hour})
	before := s.Now()
	for last := uint64(0); last < before+uint64(20*time.Millisecond); {
		b := <-beats
		require.Greater(t, b.Watermark, last)
		require.LessOrEqual(t, b.Watermark, s.Now())
		last = b.Watermark
	}
	a.end()
}

// An agent that is started again goes on where its spool has got to, with a new log, of which is known since when it is complete. What it
// could not publish, it publishes then.
func TestStartedAgain(t *testing.T) {
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	spool := filepath.Join(t.TempDir(), "spool")
	var total, all uint64
	for i := range 3 {
		s := source.NewSimulated(source.SimulatedOptions{Rate: 5000, Events: 500, Seed: uint64(i)})
		o := Options{Source: s, SpoolPath: spool, Conn: connect(t, b.URL())}
		if i == 1 { // nobody there
			o.Conn = connect(t, "nats://127.0.0.1:1")
			o.EndWait = time.Millisecond
		}
		a := startAgent(t, o)
		all += happened(s, 500)
		stats := a.end()
		total += stats.Events
		require.Equal(t, i == 1, stats.SpoolBytes > 0)
	}
	h := read(t, stored(t, b.URL()))
	require.Equal(t, total, h.events)
	require.Equal(t, all, total)
	require.Len(t, h.logs, 3)
	for i, l := range h.logs[1:] {
		last := h.logs[i][len(h.logs[i])-1]
		require.True(t, last.End)
		require.Greater(t, l[0].Since, last.Watermark)
	}
}

// What the spool has of the host's boot before comes first.
func TestAnotherBoot(t *testing.T) {
	b := startBroker(t)
	makeStream(t, connect(t, b.URL()), 1)
	spool := filepath.Join(t.TempDir(), "spool")
	for _, boot := range []string{"one", "two"} {
		o := Options{BootID: boot, Source: source.NewSimulated(source.SimulatedOptions{Rate: 5000}), SpoolPath: spool, Conn: connect(t, b.URL())}
		if boot == "one" {
			o.Conn = connect(t, "nats://127.0.0.1:1")
			o.EndWait = time.Millisecond
		}
		a := startAgent(t, o)
		happened(o.Source.(*source.Simulated), 100)
		a.end()
	}
	h := read(t, stored(t, b.URL()))
	require.Len(t, h.logs, 2)
	for i, boot := range []string{"one", "two"} {
		l := h.logs[i]
		require.Equal(t, boot, l[0].BootId)
		require.True(t, l[len(l)-1].End)
	}
}

func TestOptions(t *testing.T) {
	nc := connect(t, "nats://127.0.0.1:1")
	s := source.NewSimulated(source.SimulatedOptions{})
	good := Options{Host: "a", Source: s, Conn: nc, SpoolPath: filepath.Join(t.TempDir(), "spool")}
	for want, change := range map[string]func(o *Options){
		"no host name":       func(o *Options) { o.Host = "" },
		"no source":          func(o *Options) { o.Source = nil },
		"no file for":        func(o *Options) { o.SpoolPath = "" },
		"cannot be negative": func(o *Options) { o.Window = -1 },
		"its host has characters that cannot be printed": func(o *Options) { o.Host = "a\n" },
		"no such file or directory":                      func(o *Options) { o.SpoolPath = filepath.Join(t.TempDir(), "none", "spool") },
	} {
		o := good
		change(&o)
		_, err := Run(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}
