package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

// All that happens is in the log, and the log ends.
func TestShips(t *testing.T) {
	leak.Check(t)
	b := newFleet(t)
	s := newMade(t, 5000, 3000)
	reading := clock.Reading{Offset: -7, Error: 3}
	a := startAgent(t, Options{Host: "web.1", Source: s, Conn: connect(t, b.URL()), Clock: func() clock.Reading { return reading }, AckWait: time.Hour})
	s.wait(3000)
	before := perfbuf.Now()
	stats := a.end()
	h := read(t, stored(t, b.URL()))
	require.Equal(t, uint64(3000), h.events)
	require.Equal(t, uint64(3000), stats.Events)
	require.Empty(t, h.number)
	require.Len(t, h.logs, 1)
	for i, b := range h.logs[0] {
		require.Equal(t, i == len(h.logs[0])-1, b.End)
		require.Equal(t, reading, clock.Reading{Offset: b.WallOffset, Error: b.WallError})
		require.LessOrEqual(t, len(b.Events), mostEvents)
	}
	last := h.logs[0][len(h.logs[0])-1]
	require.GreaterOrEqual(t, last.Watermark, before, "the log covers the time until it ends")
	require.Equal(t, stats.Batches, uint64(len(h.logs[0])))
	require.Equal(t, stats.Batches, stats.Acknowledged)
	require.Zero(t, stats.SpoolBytes)
	require.Empty(t, a.notes)
}

// Where nothing happens, watermarks go on.
func TestHeartbeats(t *testing.T) {
	b := newFleet(t)
	marks := make(chan uint64, 100)
	b.batches(func(b *wire.Batch) {
		select {
		case marks <- b.Watermark:
		default: // there are enough
		}
	})
	a := startAgent(t, Options{Source: newMade(t, 1e-9, 0), Conn: connect(t, b.URL()), Heartbeat: time.Millisecond, AckWait: time.Hour})
	before := perfbuf.Now()
	for last := uint64(0); last < before+uint64(20*time.Millisecond); {
		mark := <-marks
		require.Greater(t, mark, last)
		require.LessOrEqual(t, mark, perfbuf.Now())
		last = mark
	}
	a.end()
}

// An agent that is started again goes on where its spool has got to, with a new log, which says
// since when it is complete. It then publishes what it could not before, also of another boot.
func TestStartedAgain(t *testing.T) {
	b := newFleet(t)
	spool := filepath.Join(t.TempDir(), "spool")
	for i := range 3 {
		s := newMade(t, 5000, 500)
		o := Options{BootID: fmt.Sprint(i / 2), Source: s, SpoolPath: spool, Conn: connect(t, b.URL())}
		if i == 1 { // nobody there
			o.Conn, o.EndWait = connect(t, nowhere), time.Millisecond
		}
		a := startAgent(t, o)
		s.wait(500)
		require.Equal(t, i == 1, a.end().SpoolBytes > 0)
	}
	h := read(t, stored(t, b.URL()))
	require.Equal(t, uint64(1500), h.events)
	require.Len(t, h.logs, 3)
	for i, l := range h.logs {
		require.Equal(t, fmt.Sprint(i/2), l[0].BootId)
		require.True(t, l[len(l)-1].End)
		if i > 0 {
			require.Greater(t, l[0].Since, h.logs[i-1][len(h.logs[i-1])-1].Watermark)
		}
	}
}

// A killed agent leaves its spool. The next one goes on there: nothing that was acknowledged or on
// disk is doubled or missing.
func TestKilled(t *testing.T) {
	b := newFleet(t)
	path := filepath.Join(t.TempDir(), "spool")
	// newest is the stream's last batch, an empty one while that is not known.
	newest := func() *wire.Batch {
		m, err := b.js.Stream(t.Context(), "EVENTS")
		var last *jetstream.RawStreamMsg
		if err == nil {
			last, err = m.GetLastMsgForSubject(t.Context(), "EVENTS.host-1")
		}
		if err != nil {
			return new(wire.Batch)
		}
		b, err := wire.Unmarshal(last.Data)
		require.NoError(t, err)
		return b
	}
	const kills = 4
	for range kills {
		before := newest()
		cmd := exec.Command("/proc/self/exe", path)
		cmd.Env = append(os.Environ(), programEnv+"="+b.URL())
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		poll(func() bool { b := newest(); return b.Sequence >= max(b.First, before.Sequence)+5 })
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
	}
	s := newMade(t, 5000, 100)
	a := startAgent(t, Options{Source: s, SpoolPath: path, Conn: connect(t, b.URL())})
	s.wait(100)
	a.end()

	h := read(t, stored(t, b.URL()))
	require.Len(t, h.logs, kills+1)
	for i, l := range h.logs[1:] {
		require.Greater(t, l[0].Since, h.logs[i][len(h.logs[i])-1].Watermark)
	}
}

// A host whose name no batch can have is refused before anything is done.
func TestBadHost(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	_, err := Run(t.Context(), Options{Host: "a\n", Source: lifecycle.NewSimulation(lifecycle.SimulationOptions{}), SpoolPath: spool})
	require.ErrorContains(t, err, "its host has characters that cannot be printed")
	require.NoFileExists(t, spool)
}

// A program that runs on this machine comes out of the stream: forked by this test, executed,
// ended.
func TestKernel(t *testing.T) {
	kerneltest.Require(t)
	b := newFleet(t)
	file, err := exec.LookPath("false")
	require.NoError(t, err)
	var seen atomic.Bool
	did := map[uint32]int{} // how far each process has got
	b.batches(func(b *wire.Batch) {
		for _, e := range b.Events {
			switch {
			case e.Kind == wire.Event_FORK && e.Pid == uint32(os.Getpid()) && e.OtherPid != e.Pid:
				did[e.OtherPid] = 1
			case e.Kind == wire.Event_EXEC && e.Detail == file && e.Comm == "false" && did[e.Pid] == 1:
				did[e.Pid] = 2
			case e.Kind == wire.Event_EXIT && e.Pid == e.Tid && e.Code == 1<<8 && did[e.Pid] == 2:
				seen.Store(true)
			}
		}
	})
	probe, err := lifecycle.Load()
	require.NoError(t, err)
	a := startAgent(t, Options{Source: probe, Conn: connect(t, b.URL())})
	for !seen.Load() {
		_ = exec.Command(file).Run()
		select {
		case <-a.ended:
			t.Fatal(a.err)
		default:
		}
	}
	require.Equal(t, a.end().Events, read(t, stored(t, b.URL())).events)
}

// scripted is a source on which happens what a test says, when it is attached: before anybody
// reads.
type scripted struct {
	*perfbuftest.Kernel
	before, after func(output func(size int)) // since counts from in between
	since         uint64
}

func (s *scripted) Open(perfbuf.Options) (*perfbuf.Reader, error) {
	return s.Kernel.Open(perfbuf.Options{RingBytes: 128 << 10})
}

func (s *scripted) Attach() error {
	output := func(size int) {
		_ = s.Output(0, append(lifecycle.Encode(lifecycle.Event{Kind: lifecycle.Exec}), make([]byte, size)...))
	}
	s.before(output)
	s.since = s.Now()
	s.after(output)
	return nil
}

func (s *scripted) Since() uint64 { return s.since }
func (s *scripted) Detach() error { return nil }
func (s *scripted) Close()        {}

// What is lost or cannot be read in the rings is a gap. What happens before the source is complete
// is not in the log, and no loss.
func TestRings(t *testing.T) {
	outputs := func(n, size int) func(func(int)) {
		return func(output func(int)) {
			for range n {
				output(size)
			}
		}
	}
	for name, c := range map[string]struct {
		before, after func(func(int))
		reason        wire.Gap_Reason
		skipped       uint64
		lost          uint64 // except by RING_FULL
	}{
		"ring full":   {outputs(0, 0), outputs(2000, 32), wire.Gap_RING_FULL, 0, 0},
		"corrupt":     {outputs(0, 0), func(output func(int)) { output(0); output(65_400) }, wire.Gap_CORRUPT, 1, 1},
		"not counted": {outputs(3, 0), outputs(7, 0), wire.Gap_UNSPECIFIED, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFleet(t)
			k := perfbuftest.New(perfbuftest.Options{RealTime: true})
			stats := startAgent(t, Options{Source: &scripted{Kernel: k, before: c.before, after: c.after}, Conn: connect(t, b.URL())}).end()
			h, n := read(t, stored(t, b.URL())), k.Counts(0)
			require.Equal(t, n.Written-c.skipped, h.events)
			require.Equal(t, h.events, stats.Events)
			require.Equal(t, n.Lost, h.gaps[wire.Gap_RING_FULL])
			require.Equal(t, n.Lost > 0, c.reason == wire.Gap_RING_FULL)
			require.Equal(t, n.Lost+c.lost, stats.Lost[c.reason])
			if c.reason == wire.Gap_UNSPECIFIED {
				require.Empty(t, h.number)
			} else {
				require.Positive(t, h.number[c.reason])
				require.Len(t, h.number, 1)
			}
		})
	}
}

// Names may be any bytes, a message's strings may not.
func TestDecodeNames(t *testing.T) {
	kernel := perfbuftest.New(perfbuftest.Options{})
	reader, err := kernel.Open(perfbuf.Options{})
	require.NoError(t, err)
	defer reader.Close()
	sent := lifecycle.Event{Kind: lifecycle.Exec}
	copy(sent.CommBytes[:], "a\xff\xfeb\x00c")
	copy(sent.FileBytes[:], "é"[:1])
	require.NoError(t, kernel.Output(0, lifecycle.Encode(sent)))
	stream, err := reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.NoError(t, err)
	require.NoError(t, stream.ForEach(func(ev perfbuf.Event) error {
		e, err := decode(ev)
		require.NoError(t, err)
		require.Equal(t, "a\ufffdb", e.Comm)
		require.Equal(t, "\ufffd", e.Detail)
		return nil
	}))
}
