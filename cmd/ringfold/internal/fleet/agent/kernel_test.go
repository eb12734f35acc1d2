package agent

import (
	"os/exec"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// What is executed on this machine comes out of the stream.
func TestKernel(t *testing.T) {
	kerneltest.Require(t)
	b := startBroker(t)
	nc := connect(t, b.URL())
	makeStream(t, nc, 1)
	file, err := exec.LookPath("true")
	require.NoError(t, err)
	seen := make(chan bool, 1)
	sub, err := nc.Subscribe("EVENTS.>", func(m *nats.Msg) {
		b, err := wire.Unmarshal(m.Data)
		if err != nil {
			return
		}
		for _, e := range b.Events {
			if e.Kind == wire.Event_EXEC && e.Detail == file {
				select {
				case seen <- true:
				default:
				}
			}
		}
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	defer sub.Unsubscribe()
	a := startAgent(t, Options{Source: new(source.Real), Conn: connect(t, b.URL())})
	for found := false; !found; {
		require.NoError(t, exec.Command(file).Run())
		select {
		case found = <-seen:
		case <-a.ended:
			t.Fatal(a.err)
		default:
		}
	}
	stats := a.end()
	h := read(t, stored(t, b.URL()))
	require.Equal(t, stats.Events, h.events)
}
