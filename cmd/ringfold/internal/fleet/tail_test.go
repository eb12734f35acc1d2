package fleet

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/broker"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bench is a server with a stream.
type bench struct {
	t      *testing.T
	server *broker.Server
	nc     *nats.Conn
	js     jetstream.JetStream
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	b := &bench{t: t, server: s}
	b.nc, err = connect.Options{URL: s.URL()}.Connect("test")
	require.NoError(t, err)
	t.Cleanup(b.nc.Close)
	b.js, err = jetstream.New(b.nc, jetstream.WithDefaultTimeout(time.Hour))
	require.NoError(t, err)
	require.NoError(t, streamConfig{name: "EVENTS", maxAge: time.Hour, maxBytes: 1 << 20, replicas: 1}.ensure(t.Context(), b.nc, func(string) {}))
	return b
}

// publish publishes batches.
func (b *bench) publish(batches ...*wire.Batch) {
	b.t.Helper()
	for _, batch := range batches {
		data, err := wire.Marshal(batch)
		require.NoError(b.t, err)
		b.raw(wire.Subject("EVENTS", batch.Host), data)
	}
}

func (b *bench) raw(subject string, data []byte) {
	b.t.Helper()
	_, err := b.js.Publish(context.Background(), subject, data)
	require.NoError(b.t, err)
}

// tail runs fleet tail, and checks its exit status.
func (b *bench) tail(status int, args ...string) string {
	b.t.Helper()
	got, stdout, stderr := run(b.t, append([]string{"tail", "--url", b.server.URL()}, args...)...)
	require.Equalf(b.t, status, got, "%s%s", stdout, stderr)
	return stdout
}

// past is when the hosts were booted, in the tests that are not about now.
var past = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// batch makes a batch of a host: its events are at ms since its boot, and alternate between exec,
// fork and exit.
func batch(host string, sequence uint64, watermark uint64, ms ...uint64) *wire.Batch {
	b := &wire.Batch{Host: host, BootId: "boot", LogId: "log", Sequence: sequence, First: 1, Since: (watermark - 10) * 1e6, Watermark: watermark * 1e6, WallOffset: past.UnixNano(), WallError: 1500}
	for _, m := range ms {
		b.Events = append(b.Events, &wire.Event{Kind: wire.Event_Kind(1 + m%3), Delta: m * 1e6, Cpu: 3, Pid: uint32(m), Tid: uint32(m), OtherPid: 7, OtherTid: 7,
			Comm: fmt.Sprint("c", m), Detail: "/bin/x"})
	}
	return b
}

// example is two hosts, one of which ends, a gap, a missing batch, and a batch that came twice.
func example(b *bench) {
	gap := batch("b", 2, 20, 12)
	gap.Events[0] = &wire.Event{Kind: wire.Event_GAP, Delta: 12e6, Gap: &wire.Gap{Reason: wire.Gap_RING_FULL, Count: 5, After: 11e6}}
	end := batch("b", 3, 30)
	end.End = true
	behind := batch("a", 4, 30, 25)
	behind.Since = 24e6
	b.publish(batch("a", 1, 10, 1, 2, 3), batch("b", 1, 10, 2, 5), batch("a", 2, 20, 11), gap, batch("a", 2, 20, 11), behind, end)
}

// comms are the events' names, and the gaps' reasons.
func comms(events []map[string]any) (all []string) {
	for _, e := range events {
		if e["event"] == "gap" {
			all = append(all, fmt.Sprint(e["host"], ":", e["reason"]))
		} else if e["summary"] == nil {
			all = append(all, fmt.Sprint(e["host"], ":", e["comm"]))
		}
	}
	return all
}

func TestTailJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	example(b)
	out := lines(t, b.tail(3, "--all", "--once", "--json"))
	require.Equal(t, []string{"a:c1", "a:c2", "b:c2", "a:c3", "b:c5", "a:c11", "b:ring_full", "a:missing_batches", "a:c25"}, comms(out))
	require.Equal(t, map[string]any{
		"time": "2026-01-02T03:04:05.001Z", "error_ns": 1500., "host": "a", "boot": "boot", "log": "log", "sequence": 1., "monotonic_ns": 1e6,
		"event": "exec", "cpu": 3., "pid": 1., "tid": 1., "child_pid": 7., "child_tid": 7., "comm": "c1", "detail": "/bin/x"}, out[0])
	require.Equal(t, "exit", out[1]["event"])
	require.Equal(t, 0., out[1]["status"])
	require.Equal(t, 5., out[6]["missing"])
	require.Equal(t, "2026-01-02T03:04:05.011Z", out[6]["after"])
	require.Equal(t, "batch 3", out[7]["detail"])
	summary := out[9]["summary"].(map[string]any)
	require.Equal(t, map[string]any{
		"events": 7., "printed": 7., "complete": false, "unknown": []any{"a: gaps: 1", "b: gaps: 1"}, "late": 0., "forced": 0., "duplicates": 1., "malformed": 0., "unread": 0.,
		"hosts": map[string]any{
			"a": map[string]any{"events": 5., "gaps": 1., "from": "2026-01-02T03:04:05Z", "to": "2026-01-02T03:04:05.03Z"},
			"b": map[string]any{"events": 2., "gaps": 1., "from": "2026-01-02T03:04:05Z", "to": "2026-01-02T03:04:05.03Z"},
		},
		"gaps":         []any{map[string]any{"reason": "ring_full", "gaps": 1., "missing": 5.}, map[string]any{"reason": "missing_batches", "gaps": 1., "missing": 0.}},
		"delay_p50_ns": 0., "delay_p99_ns": 0., "max_error_ns": 1500.}, summary)
}

func TestTailText(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	example(b)
	exit := batch("c", 1, 30, 26)
	exit.Events[0].Kind, exit.Events[0].Code, exit.Events[0].Comm = wire.Event_EXIT, 9, "a\x1b[2J"
	b.publish(exit)
	require.Equal(t, `WALL TIME                   HOST     CPU WHAT     PID COMM                 ERROR  DETAIL
2026-01-02 03:04:05.001000  a          3 exec       1 c1                  ±1.5µs  /bin/x
2026-01-02 03:04:05.002000  a          3 exit       2 c2                  ±1.5µs
2026-01-02 03:04:05.002000  b          3 exit       2 c2                  ±1.5µs
2026-01-02 03:04:05.003000  a          3 fork       3 c3                  ±1.5µs  child 7
2026-01-02 03:04:05.005000  b          3 exit       5 c5                  ±1.5µs
2026-01-02 03:04:05.011000  a          3 exit      11 c11                 ±1.5µs
2026-01-02 03:04:05.012000  b          - gap        -                     ±1.5µs  RING_FULL: 5 events are missing since 2026-01-02 03:04:05.011000
2026-01-02 03:04:05.024000  a          - gap        -                     ±1.5µs  MISSING_BATCHES: events may be missing since 2026-01-02 03:04:05.020000 (batch 3)
2026-01-02 03:04:05.025000  a          3 exec      25 c25                 ±1.5µs  /bin/x
2026-01-02 03:04:05.026000  c          3 exit      26 a\u001b[2J          ±1.5µs  killed by signal 9

8 events of 3 hosts
  HOST         EVENTS   GAPS  KNOWN FROM                  TO
  a                 5      1  2026-01-02 03:04:05.000000  2026-01-02 03:04:05.030000
  b                 2      1  2026-01-02 03:04:05.000000  2026-01-02 03:04:05.030000
  c                 1      0  2026-01-02 03:04:05.020000  2026-01-02 03:04:05.030000
late 0, forced 0; batches that came twice 1; messages that could not be read 0
gaps RING_FULL            1, with 5 events as far as is known
gaps MISSING_BATCHES      1, with 0 events as far as is known
not known to be complete:
  a: gaps: 1
  b: gaps: 1
times are wrong by ±1.5µs at most, as the hosts say: the order between hosts is as good as that
`, b.tail(3, "--all", "--once"))
	require.True(t, strings.HasPrefix(b.tail(3, "--all", "--once", "-o", "compact"), `03:04:05.001000 a exec 1 c1 /bin/x
03:04:05.002000 a exit 2 c2
`))
	require.Contains(t, b.tail(3, "--all", "--once", "-o", "compact"), `
03:04:05.012000 b gap RING_FULL: 5 events are missing since 2026-01-02 03:04:05.011000
03:04:05.024000 a gap MISSING`)
}

func TestTailFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	example(b)
	for args, c := range map[string]struct {
		status int
		want   []string
	}{
		"--host a":                           {3, []string{"a:c1", "a:c2", "a:c3", "a:c11", "a:missing_batches", "a:c25"}},
		"--host b,x":                         {3, []string{"b:c2", "b:c5", "b:ring_full"}},
		"--event exec,fork":                  {3, []string{"a:c1", "a:c3", "b:ring_full", "a:missing_batches", "a:c25"}},
		"--comm c2,c3":                       {3, []string{"a:c2", "b:c2", "a:c3", "b:ring_full", "a:missing_batches"}},
		"--comm none --host b":               {3, []string{"b:ring_full"}},
		"-n 2":                               {0, []string{"a:c1", "a:c2"}},
		"--event fork -n 1":                  {0, []string{"a:c3"}},
		"--buffer 1 --host a -n 2 --dead 1m": {0, []string{"a:c1", "a:c2"}},
	} {
		out := lines(t, b.tail(c.status, append(strings.Fields(args), "--all", "--once", "--json")...))
		require.Equal(t, c.want, comms(out), args)
	}
	// Hosts whose names are the same as a subject are told apart.
	b.publish(batch("a.b", 1, 10, 1), batch("a_b", 1, 10, 2))
	require.Equal(t, []string{"a_b:c2"}, comms(lines(t, b.tail(0, "--all", "--once", "--json", "--host", "a_b"))))
}

// What was stored before is not read, but for a margin, of which only what is late enough is
// printed.
func TestTailSince(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old, recent := batch("a", 1, 10, 1), batch("a", 2, 20, 11)
	hourAgo := time.Now().Add(-time.Hour)
	old.WallOffset, recent.WallOffset = hourAgo.UnixNano(), hourAgo.UnixNano()
	recent.Events[0].Delta, recent.Watermark = uint64(50*time.Minute), uint64(51*time.Minute)
	b.publish(old, recent)
	require.Equal(t, []string{"a:c11"}, comms(lines(t, b.tail(0, "--since", "30m", "--once", "--json"))))
	require.Equal(t, []string{"a:c1", "a:c11"}, comms(lines(t, b.tail(3, "--since", time.Now().Add(-2*time.Hour).Format(time.RFC3339), "--once", "--json"))))
	require.Empty(t, comms(lines(t, b.tail(3, "--since", time.Now().Add(time.Hour).Format(time.RFC3339), "--once", "--json"))))

	// By the clock of a host, which is ahead, it happened after the time of --since. It was stored
	// before.
	ahead := batch("b", 1, 10, 1)
	ahead.WallOffset, ahead.Events[0].Delta, ahead.Watermark = hourAgo.UnixNano(), uint64(2*time.Hour), uint64(3*time.Hour)
	b.publish(ahead)
	stream, err := b.js.Stream(t.Context(), "EVENTS")
	require.NoError(t, err)
	stored, err := stream.GetLastMsgForSubject(t.Context(), "EVENTS.b")
	require.NoError(t, err)
	since := stored.Time.Add(time.Second).Format(time.RFC3339Nano)
	require.Equal(t, []string{"b:c1"}, comms(lines(t, b.tail(0, "--host", "b", "--since", since, "--once", "--json"))))
}

func TestTailMalformed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.publish(batch("a.b", 1, 10, 1))
	b.raw("EVENTS.a_b", []byte("junk"))
	b.raw("EVENTS.other", nil)
	data, err := wire.Marshal(batch("a.b", 2, 15, 12))
	require.NoError(t, err)
	b.raw("EVENTS.impostor", data)
	b.publish(batch("a.b", 2, 20, 11))
	out := lines(t, b.tail(3, "--all", "--once", "--json"))
	require.Equal(t, []string{"other:malformed", "impostor:malformed", "a.b:c1", "a.b:malformed", "a.b:c11"}, comms(out))
	require.Contains(t, out[1]["detail"], `it says that it is of host "a.b", and was published to EVENTS.impostor`)
	require.Contains(t, out[3]["detail"], "message 2 of the stream: malformed batch: ")
	require.Equal(t, 3., out[5]["summary"].(map[string]any)["malformed"])
	require.Contains(t, b.tail(3, "--all", "--once"), "MALFORMED: events may be missing (message 3 of the stream: malformed batch: its host is missing)")
}

// running is a program that is running: reading it reads the lines that it prints.
type running struct {
	*bufio.Scanner
	cmd    *exec.Cmd
	stderr *bufio.Scanner
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	cmd := program(t, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	r := &running{bufio.NewScanner(out), cmd, bufio.NewScanner(stderr)}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return r
}

// Live: nothing of before, and a slow reader of what it prints loses nothing. Ctrl-C ends it, with
// a summary.
func TestTailLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.publish(batch("a", 1, 10, 1))
	r := start(t, "tail", "--url", b.server.URL(), "--json", "--dead", "1h")
	b.consumers(1)
	want := []string{}
	for n := uint64(2); n < 3000; n++ {
		batch := batch("a", n, n*10, n*10-1)
		batch.WallOffset = time.Now().UnixNano() - int64(n*1e7)
		b.publish(batch)
		want = append(want, fmt.Sprint("a:c", n*10-1))
	}
	var out strings.Builder
	for n := 0; n < len(want) && r.Scan(); n++ {
		fmt.Fprintln(&out, r.Text())
	}
	require.Equal(t, want, comms(lines(t, out.String())))
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	require.True(t, r.Scan())
	summary := lines(t, r.Text())[0]["summary"].(map[string]any)
	require.Equal(t, 2998., summary["events"])
	require.Positive(t, summary["delay_p50_ns"])
	require.False(t, r.Scan())
	require.NoError(t, r.cmd.Wait())
}

// consumers waits until as many read the stream.
func (b *bench) consumers(n int) {
	b.t.Helper()
	for {
		stream, err := b.js.Stream(context.Background(), "EVENTS")
		require.NoError(b.t, err)
		if stream.CachedInfo().State.Consumers == n {
			return
		}
	}
}

// A host that sends nothing is reported.
func TestTailSilentHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := start(t, "tail", "--url", b.server.URL(), "--hosts", "a", "--dead", "50ms", "-o", "compact")
	require.True(t, r.Scan())
	require.Contains(t, r.Text(), " a gap HOST_SILENT: nothing comes of the host")
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	require.EqualError(t, r.cmd.Wait(), "exit status 3")
}

// The reader of its output goes away: | head.
func TestTailPipe(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	cmd := program(t, "tail", "--url", b.server.URL(), "--all")
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	example(b)
	require.NoError(t, cmd.Wait())
}

func TestTailNoStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Contains(t, fails(t, 1, "tail", "--url", b.server.URL(), "--stream", "OTHER"),
		"there is no stream OTHER at 127.0.0.1:"+fmt.Sprint(b.server.Port())+": start an agent, which makes it, or name another one by --stream")
	require.Contains(t, fails(t, 1, "tail", "--url", b.server.URL(), "--stream", "a.b"), `-stream "a.b"`)
	made := streamConfig{name: "a.b", maxAge: time.Hour, maxBytes: 1 << 20, replicas: 1}.ensure(t.Context(), b.nc, func(note string) { t.Error(note) })
	require.ErrorIs(t, made, jetstream.ErrInvalidStreamName, "an agent gives up at once, too")
	none, err := broker.Start(t.TempDir(), func(o *server.Options) { o.JetStream = false })
	require.NoError(t, err)
	defer none.Close()
	require.Contains(t, fails(t, 1, "tail", "--url", none.URL()), "has no JetStream: run nats-server with -js")
}

// While there is no server it says so and tries on; what was missed while it was away comes then.
func TestTailNoServer(t *testing.T) {
	t.Parallel()
	s, err := broker.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(s.Close)
	url := s.URL()
	nc, err := connect.Options{URL: url}.Connect("test")
	require.NoError(t, err)
	require.NoError(t, streamConfig{name: "EVENTS", maxAge: time.Hour, maxBytes: 1 << 20, replicas: 1}.ensure(t.Context(), nc, func(string) {}))
	nc.Close()
	s.Stop()
	r := start(t, "tail", "--url", url, "--all", "--json", "--dead", "1h")
	require.True(t, r.stderr.Scan())
	require.Contains(t, r.stderr.Text(), "fleet tail: no NATS server answers at nats://127.0.0.1")
	go func() {
		for r.stderr.Scan() {
		}
	}()

	for n := uint64(1); n <= 3; n++ {
		require.NoError(t, s.Restart())
		nc, err := connect.Options{URL: url}.Connect("test")
		require.NoError(t, err)
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Hour))
		require.NoError(t, err)
		(&bench{t: t, js: js}).publish(batch("a", n, n*10, n*10-1))
		require.True(t, r.Scan())
		require.Equal(t, []string{fmt.Sprint("a:c", n*10-1)}, comms(lines(t, r.Text())))
		nc.Close()
		s.Stop()
	}
	require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
	require.True(t, r.Scan())
	require.Contains(t, r.Text(), `"events":3`)
}

// A host that others wait for is reported, with since when, also in the summary.
func TestTailWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var wait sync.WaitGroup
	for format, want := range map[string][2]string{
		"compact": {`^- ghost gap HOST_BEHIND: events of others wait for the host since 20\S+ \S+ \(nothing has come of it\)$`, `^until the end, 1 events waited for ghost since 20\S+ \S+$`},
		"json":    {`"host":"ghost",.*"reason":"host_behind","after":"20\S+Z"`, `"waiting":{"host":"ghost","since":"20\S+Z","events":1}`},
	} {
		wait.Go(func() {
			r := start(t, "tail", "--url", b.server.URL(), "--all", "--hosts", "ghost", "--dead", "1h", "-o", format)
			assert.True(t, r.Scan())
			assert.Regexp(t, want[0], r.Text())
			assert.NoError(t, r.cmd.Process.Signal(os.Interrupt))
			found := false
			for r.Scan() {
				found = found || regexp.MustCompile(want[1]).MatchString(r.Text())
			}
			assert.True(t, found, want[1])
			assert.EqualError(t, r.cmd.Wait(), "exit status 3")
		})
	}
	b.publish(batch("a", 1, 10, 1))
	wait.Wait()
}
