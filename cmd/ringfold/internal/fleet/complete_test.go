package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/agent"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// summary is that of a tail that prints JSON.
func summary(t *testing.T, out string) map[string]any {
	t.Helper()
	all := lines(t, out)
	return all[len(all)-1]["summary"].(map[string]any)
}

// Without a server, and with one that lets nobody read, nothing is known.
func TestNothingKnown(t *testing.T) {
	t.Parallel()
	const nobody = "not known to be complete: no host has been heard of\n"
	status, stdout, stderr := run(t, "tail", "--url", "nats://127.0.0.1:1", "--all", "--once", "--timeout", "100ms")
	require.Equal(t, 3, status, stderr)
	require.Contains(t, stdout, "\nnot known to be complete:\n  no host has been heard of\n")
	require.True(t, strings.HasSuffix(stderr, nobody), stderr)

	refuses, err := broker.Start(t.TempDir(), func(o *server.Options) {
		o.Users = []*server.User{{Username: "agent", Password: "x"}, {Username: "tail", Password: "x", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.EVENTS"}}}}}
	})
	require.NoError(t, err)
	defer refuses.Close()
	url := func(user string) string { return strings.Replace(refuses.URL(), "//", "//"+user+":x@", 1) }
	publishes := program(t, "agent", "--simulate", "--spool", filepath.Join(t.TempDir(), "spool"))
	publishes.Env = append(publishes.Env, "NATS_URL="+url("agent"))
	require.NoError(t, publishes.Start())
	defer func() {
		require.NoError(t, publishes.Process.Signal(os.Interrupt))
		require.NoError(t, publishes.Wait())
	}()
	for {
		cmd := program(t, "tail", "--all", "--once", "--timeout", "1s", "--json")
		cmd.Env = append(cmd.Env, "NATS_URL="+url("tail"))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if strings.Contains(stderr.String(), "there is no stream") {
			continue
		}
		require.EqualError(t, err, "exit status 3", stderr.String())
		require.True(t, strings.HasSuffix(stderr.String(), nobody), stderr.String())
		s := summary(t, string(out))
		require.Equal(t, false, s["complete"])
		require.Equal(t, []any{"no host has been heard of"}, s["unknown"])
		return
	}
}

// What the stream has dropped, as its limits say, is not known.
func TestStreamDrops(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	began := time.Now().Add(-time.Minute)
	for n := range uint64(100) {
		one := batch("a", n+1, n*10+10, n*10+5)
		one.WallOffset = began.UnixNano()
		b.publish(one)
	}
	require.Equal(t, true, summary(t, b.tail(0, "--since", "1m", "--once", "--json"))["complete"])
	stream, err := b.js.Stream(context.Background(), "EVENTS")
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgs = 30
	_, err = b.js.UpdateStream(context.Background(), config)
	require.NoError(t, err)

	from := began.Add(700 * time.Millisecond)
	status, stdout, stderr := run(t, "tail", "--url", b.server.URL(), "--since", "1h", "--once")
	require.Equal(t, 3, status, stdout)
	require.Contains(t, stdout, "  a: unknown before "+from.Format(timeLayout)+"\n")
	require.Contains(t, stderr, ": stream EVENTS has dropped what was stored before 20")
	s := summary(t, b.tail(0, "--all", "--once", "--json"))
	require.Equal(t, map[string]any{"a": map[string]any{"events": 30., "gaps": 0., "from": jsonTime(from.UnixNano()),
		"to": jsonTime(began.Add(time.Second).UnixNano())}}, s["hosts"], "all is known of what was asked for")
}

// An agent is started again with its spool, without it, and with an older copy of it: all that it
// has read is there, and what nobody has read is a gap that says why.
func TestSpools(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "spool")
	var read uint64
	run := func() {
		stream, err := b.js.Stream(t.Context(), "EVENTS")
		require.NoError(t, err)
		before := stream.CachedInfo().State.Msgs
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan agent.Stats)
		go func() {
			stats, err := agent.Run(ctx, agent.Options{
				Host: "h", Source: lifecycle.NewSimulation(lifecycle.SimulationOptions{}), Conn: b.nc, SpoolPath: path, EndWait: time.Hour})
			assert.NoError(t, err)
			ended <- stats
		}()
		for stream.CachedInfo().State.Msgs < before+5 {
			_, err := stream.Info(t.Context())
			require.NoError(t, err)
		}
		end()
		stats := <-ended
		require.Equal(t, stats.Batches, stats.Acknowledged)
		read += stats.Events
	}
	run()
	older, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, true, summary(t, b.tail(0, "--all", "--once", "--json"))["complete"])
	run()
	require.NoError(t, os.Remove(path))
	run()
	require.NoError(t, os.WriteFile(path, older, 0o600))
	run()

	out := b.tail(3, "--all", "--once", "--json")
	var gaps []string
	for _, e := range lines(t, out) {
		if e["event"] == "gap" && e["reason"] != "ring_full" {
			gaps = append(gaps, e["reason"].(string))
			require.Less(t, e["after"], e["time"])
		}
	}
	require.Equal(t, []string{"agent_down", "spool_lost", "spool_lost"}, gaps)
	s := summary(t, out)
	require.Equal(t, float64(read), s["events"])
	require.Zero(t, s["duplicates"])
	require.Contains(t, s["unknown"].([]any)[0], "h: gaps: ")
}

// Everything that is not known is said.
func TestUnknown(t *testing.T) {
	from, to := past, past.Add(time.Minute)
	known := tail.Host{From: from, To: to, Events: 1}
	for want, c := range map[string]struct {
		since time.Time
		host  tail.Host
		gaps  map[wire.Gap_Reason]tail.Gaps
	}{
		"":                          {host: known, gaps: map[wire.Gap_Reason]tail.Gaps{wire.Gap_HOST_SILENT: {Gaps: 1}, wire.Gap_HOST_BEHIND: {Gaps: 1}}},
		"a: nothing has come of it": {host: tail.Host{}},
		"a: unknown before 2026-01-02 03:04:05.000000": {host: known, since: from.Add(-1)},
		"a: silent since 2026-01-02 03:05:05.000000":   {host: tail.Host{From: from, To: to, Silent: true}, since: from},
		"gaps of unknown hosts: 1":                     {host: known, gaps: map[wire.Gap_Reason]tail.Gaps{wire.Gap_MALFORMED: {Gaps: 1}}},
		"a: gaps: 2":                                   {host: tail.Host{From: from, To: to, Gaps: 2}, gaps: map[wire.Gap_Reason]tail.Gaps{wire.Gap_AGENT_DOWN: {Gaps: 2}}},
	} {
		r := tail.Result{Stats: tail.Stats{ByHost: map[string]tail.Host{"a": c.host}, Gaps: c.gaps}}
		require.Equal(t, want, strings.Join(unknown(r, c.since), "; "))
	}
	require.Equal(t, []string{"no host has been heard of"}, unknown(tail.Result{}, time.Time{}))
}
