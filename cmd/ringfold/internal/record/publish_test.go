package record

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/trace"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
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
		Delay  uint64 `json:"delay_p99_ns"`
		Fleet  struct {
			Unknown []string
			Hosts   map[string]struct {
				Events, Lost uint64
				To           time.Time
			}
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
	time.Sleep(100 * time.Millisecond)
	before := time.Now().Add(-50 * time.Millisecond) // how far off the hosts' readings of the clock may be, at most
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
	require.Zero(t, end.Late+end.Delay, "all happened before")
	for host, known := range end.Fleet.Hosts {
		require.False(t, known.To.Before(before), "%s: all is known until it ends", host)
	}
	var last uint64
	for i, ev := range events[:len(events)-1] {
		require.LessOrEqual(t, last, ev.Timestamp)
		last = ev.Timestamp
		require.Equal(t, []string{"a", "b"}[i%2], ev.Host)
		require.Equal(t, []string{"a/events", "b/shared"}[i%2], ev.Map)
	}
	events, _ = fleetTail(t, url, "--type", "hold_args", "-n", "2")
	require.NotEmpty(t, events[1].Fields)

	status, drawn, _ := clitest.Run(t, trace.Command, url+"?since=all&once=true", "-w", "-")
	require.Zero(t, status)
	for _, host := range []string{"a", "b"} {
		require.Contains(t, drawn, fmt.Sprintf(`"%s CPU %d"`, host, cpu))
	}

	// The same in a file, and in a collector.
	file, c := filepath.Join(t.TempDir(), "all.data"), collector(t, nil)
	require.EqualValues(t, 6*n, exported(t, url+"?since=all&once=true", "-w", file).Events)
	all, ended := sizes(t, perfdata.ReplayOptions{Event: "a/events"}, file)
	require.Equal(t, io.EOF, ended)
	require.Len(t, all, 3*n)
	require.EqualValues(t, 6*n, exported(t, url+"?since=all&once=true", "-w", c.URL()).Events)
	var hosts []string
	for _, r := range c.Records() {
		hosts = append(hosts, attributes(r.Attributes)["host.name"])
	}
	require.Equal(t, slices.Repeat([]string{"a", "b"}, 3*n), hosts)
}

// Snapshots of a flight recorder are a host's recording too.
func TestPublishSnapshots(t *testing.T) {
	kerneltest.RequireRoot(t)
	server, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(server.Close)
	e := kerneltest.Load(t)
	cpu := kerneltest.OnlineCPUs(t)[0]
	to := server.URL() + "/EVENTS?host=a&spool=" + filepath.Join(t.TempDir(), "spool")
	r := clitest.Spawn(t, "keeping the last", "record", "--steal", "id", id(t, e.MapFD()), "--flight", "1h", "-n", "2", "--json", "-w", to)
	for _, events := range []string{"10", "20"} {
		e.Emit(cpu, 10, 40)
		r.Signal(t, syscall.SIGUSR1)
		r.Out.Wait(t, `"snapshot".*"events":`+events)
	}
	snapshots, s := lines(t, r)
	require.Len(t, snapshots, 2)
	require.EqualValues(t, 30, s.Events)
	events, _ := fleetTail(t, server.URL()+"/EVENTS")
	require.EqualValues(t, 30, events[len(events)-1].Summary.Events)
}
