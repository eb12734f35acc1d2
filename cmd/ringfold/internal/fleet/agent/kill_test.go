package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/require"
)

// programEnv has the test binary be an agent, which is killed. It is the URL of the broker.
const programEnv = "FLEET_TEST_AGENT"

func program() {
	nc, err := nats.Connect(os.Getenv(programEnv), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err == nil {
		s := source.NewSimulated(source.SimulatedOptions{Rate: 5000})
		_, err = Run(context.Background(), Options{Host: "host-1", Source: s, SpoolPath: os.Args[1], Conn: nc})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A killed agent leaves its spool. The next one goes on there: nothing that was acknowledged or on disk is doubled or missing.
func TestKilled(t *testing.T) {
	b := startBroker(t)
	nc := connect(t, b.URL())
	js := makeStream(t, nc, 1)
	path := filepath.Join(t.TempDir(), "spool")
	// newest is the stream's last batch, an empty one while that is not known.
	newest := func() *wire.Batch {
		s, err := js.Stream(t.Context(), "EVENTS")
		if err != nil {
			return new(wire.Batch)
		}
		m, err := s.GetLastMsgForSubject(t.Context(), "EVENTS.host-1")
		if err != nil {
			return new(wire.Batch)
		}
		b, err := wire.Unmarshal(m.Data)
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
	s := source.NewSimulated(source.SimulatedOptions{Rate: 5000, Events: 100})
	a := startAgent(t, Options{Source: s, SpoolPath: path, Conn: connect(t, b.URL())})
	happened(s, 100)
	a.end()

	h := read(t, stored(t, b.URL()))
	require.Len(t, h.logs, kills+1)
	for i, l := range h.logs[1:] {
		require.Greater(t, l[0].Since, h.logs[i][len(h.logs[i])-1].Watermark)
	}
}
