package record

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/tail"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// fleetEvent is what tail prints of an event of a fleet.
type fleetEvent struct {
	Host, Map string
	Timestamp uint64
	Fields    map[string]any
	Lost      struct {
		Count  uint64
		Reason string
	}
	Summary *struct {
		Events uint64
		Late   uint64
		Fleet  struct {
			Unknown []string
			Hosts   map[string]struct{ Events, Lost uint64 }
		}
	}
}

// fleetTail reads all that a stream has.
func fleetTail(t *testing.T, url string, args ...string) (events []fleetEvent, status int) {
	t.Helper()
	status, out, notes := clitest.Run(t, tail.Command, append([]string{url + "?since=all&once=true", "--json"}, args...)...)
	for line := range strings.Lines(out) {
		var ev fleetEvent
		require.NoError(t, json.Unmarshal([]byte(line), &ev), line)
		events = append(events, ev)
	}
	require.NotEmpty(t, events, notes)
	return events, status
}

// Two hosts publish other programs' maps: a perf event array, and a ring buffer with its type. The
// server is away in the middle. What they have recorded is read back in one order, and nothing is
// missing.
func TestPublish(t *testing.T) {
	kerneltest.RequireRoot(t)
	server, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(server.Close)
	e, rings := kerneltest.Load(t), kerneltest.LoadRings(t, kerneltest.RingOptions{})
	cpu := kerneltest.OnlineCPUs(t)[0]
	url := server.URL() + "/EVENTS"
	to := func(host string) string {
		return url + "?host=" + host + "&spool=" + filepath.Join(t.TempDir(), "spool")
	}
	publish := func(host string, args ...string) *clitest.Running {
		return clitest.Spawn(t, "publishing to EVENTS as host "+host, append([]string{"record", "--steal", "--json", "-w", to(host)}, args...)...)
	}
	a := publish("a", "id", id(t, e.MapFD()))
	ring := fmt.Sprintf("%s,time=%d,cpu=%d,type=hold_args", id(t, rings.MapFD()), kerneltest.RingTimeAt, kerneltest.RingCPUAt)
	b := publish("b", "id", ring)
	const n = 300
	emit := func() {
		for range n {
			e.Emit(cpu, 1, 40)
			rings.Emit(cpu, kerneltest.RingEmit{Count: 1, Size: 40})
		}
	}
	emit()
	server.Stop()
	emit()
	require.NoError(t, server.Restart())
	emit()
	for _, r := range []*clitest.Running{a, b} {
		r.Interrupt(t)
		s := summed(t, r)
		require.EqualValues(t, 3*n, s.Events)
		require.Zero(t, s.Lost)
		require.Zero(t, s.Spool.SpoolBytes)
	}

	events, status := fleetTail(t, url)
	require.Zero(t, status)
	end := events[len(events)-1].Summary
	require.EqualValues(t, 6*n, end.Events)
	require.Empty(t, end.Fleet.Unknown)
	require.Zero(t, end.Late)
	var before uint64
	for i, ev := range events[:len(events)-1] {
		require.LessOrEqual(t, before, ev.Timestamp)
		before = ev.Timestamp
		require.Equal(t, []string{"a", "b"}[i%2], ev.Host)
		require.Equal(t, []string{"a/events", "b/shared"}[i%2], ev.Map)
	}
	events, _ = fleetTail(t, url, "--type", "hold_args", "-n", "2")
	require.NotEmpty(t, events[1].Fields)

	// The same as a file.
	file := filepath.Join(t.TempDir(), "all.data")
	s := summed(t, clitest.Start(t, "reading", Command, url+"?since=all&once=true", "--json", "-w", file))
	require.EqualValues(t, 6*n, s.Events)
}
