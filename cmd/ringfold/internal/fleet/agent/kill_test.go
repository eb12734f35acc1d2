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
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/spool"
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
	// newest is the sequence number of the stream's last batch, 0 while that is not known.
	newest := func() uint64 {
		s, err := js.Stream(t.Context(), "EVENTS")
		if err != nil {
			return 0
		}
		m, err := s.GetLastMsgForSubject(t.Context(), "EVENTS.host-1")
		if err != nil {
			return 0
		}
		b, err := wire.Unmarshal(m.Data)
		require.NoError(t, err)
		return b.Sequence
	}
	const kills = 4
	for range kills {
		sp, err := spool.Open(path, bootID(t))
		require.NoError(t, err)
		first := sp.Log().Next // of the batches of this run; the spool may have some of earlier ones
		require.NoError(t, sp.Close())
		cmd := exec.Command("/proc/self/exe", path)
		cmd.Env = append(os.Environ(), programEnv+"="+b.URL())
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		poll(func() bool { return newest() >= first+5 })
		require.NoError(t, cmd.Process.Kill())
		require.ErrorContains(t, cmd.Wait(), "killed")
	}
	s := source.NewSimulated(source.SimulatedOptions{Rate: 5000, Events: 100})
	a := startAgent(t, Options{Source: s, SpoolPath: path, Conn: connect(t, b.URL())})
	happened(s, 100)
	a.end()

	h := read(t, stored(t, b.URL()))
	require.Len(t, h.logs, 1)
	require.Equal(t, kills, h.number[wire.Gap_AGENT_DOWN])
	for _, l := range h.logs {
		last := uint64(0)
		for _, b := range l {
			for i, e := range b.Events {
				if e.Gap.GetReason() == wire.Gap_AGENT_DOWN {
					require.Zero(t, i, "it is the first thing that it says")
					require.Equal(t, last, e.Gap.After)
				}
			}
			last = b.Watermark
		}
	}
}

// bootID is that of this machine, which the agent's log has.
func bootID(t *testing.T) string {
	t.Helper()
	o, err := Options{Host: "x", Source: new(source.Simulated), Conn: new(nats.Conn), SpoolPath: "x"}.effective()
	require.NoError(t, err)
	return o.BootID
}
