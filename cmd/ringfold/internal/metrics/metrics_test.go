package metrics

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// serving starts the command, and returns what it serves at and what ends it with Ctrl-C and returns its output.
func serving(t *testing.T, args ...string) (url string, end func() string) {
	t.Helper()
	r := clitest.Start(t, `serving http://\S+`, Command, append(args, "--listen", "127.0.0.1:0")...)
	return r.Notes.Wait(t, `serving (http://\S+)`)[1], func() string {
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGINT))
		return r.Wait(t)
	}
}

// scrape returns what is served of events that emit outputs, once there are some, and what the command prints at its end.
func scrape(t *testing.T, emit func(), args ...string) (body, stdout string) {
	t.Helper()
	url, end := serving(t, args...)
	samples := regexp.MustCompile(`(?m)^ringfold_samples_total.* [1-9]`)
	delays := regexp.MustCompile(`(?m)^ringfold_event_delay_seconds_count\{map="events"\} [1-9]`) // looked at before or after the samples
	for !samples.MatchString(body) || !delays.MatchString(body) {
		emit()
		answer, err := http.Get(url)
		require.NoError(t, err)
		b, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		body = string(b)
	}
	stdout = end()
	_, err := http.Get(url)
	require.Error(t, err, "it serves no longer")
	return body, stdout
}

func TestServes(t *testing.T) {
	e := kerneltest.Load(t)
	id := clitest.MapID(t, e.MapFD())
	emit := func() { e.Emit(0, 10, 64) }
	all, out := scrape(t, emit, "id", id, "--steal")
	require.Contains(t, all, "\nringfold_late_events_total{map=\"events\"} 0\n")
	require.Contains(t, all, "\ngo_goroutines ")
	require.NotContains(t, all, "cpu=")
	require.Regexp(t, `^\d+0 events in \S+, 0 lost, 0 late\n$`, out)

	// What the dashboard shows is there.
	names := 0
	for _, p := range board(t) {
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`\bringfold_[a-z0-9_]+`).FindAllString(target.Expr, -1) {
				if name != "ringfold_outputs_refused_total" { // takes Options.LanesFD
					require.Contains(t, all, "\n"+name, p.Title)
				}
				names++
			}
		}
	}
	require.Greater(t, names, 15)

	perCPU, out := scrape(t, emit, "id", id, "--steal", "--per-cpu", "--json")
	require.Regexp(t, `\nringfold_samples_total\{cpu="0",map="events"\} \d`, perCPU)
	var last struct {
		Summary struct{ Events, Lost, Late *uint64 }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &last))
	require.NotZero(t, *last.Summary.Events)
	require.Zero(t, *last.Summary.Lost+*last.Summary.Late)
}

// A client that never reads is not served for ever.
func TestClientThatNeverReads(t *testing.T) {
	patience = time.Millisecond
	defer func() { patience = 30 * time.Second }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	shutdown := serve(registry, listener, func(err error) { t.Error(err) })
	defer shutdown()
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	for err == nil { // until the server hangs up; it takes no more requests when it cannot answer
		_, err = io.WriteString(client, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	}
}

// Where it cannot listen, it takes over no map.
func TestAddressTaken(t *testing.T) {
	e := kerneltest.Load(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	status, _, stderr := clitest.Run(t, Command, "id", clitest.MapID(t, e.MapFD()), "--steal", "--listen", l.Addr().String())
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "address already in use")
	require.NotContains(t, stderr, "reading")
}

func TestMisuse(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"what":         "name a map by id N",
		"a.data":       "ringfold stat counts a recording",
		"id 1 -- true": "see ringfold stat",
	})
}

// When a host's events have changed it has another recording, whose counts are served from then on.
func TestHosts(t *testing.T) {
	set := &source.Set{}
	registry, delays := (&config{}).registry(set)
	served := func() (samples float64, delayed uint64) {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			switch m := f.GetMetric()[0]; f.GetName() {
			case "ringfold_samples_total":
				samples = m.GetCounter().GetValue()
			case "ringfold_event_delay_seconds":
				delayed = m.GetHistogram().GetSampleCount()
			}
		}
		return samples, delayed
	}
	for _, n := range []int{5, 3} {
		k := perfbuftest.New(perfbuftest.Options{CPUs: 1})
		r, err := k.Open(perfbuf.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { r.Close() })
		stream, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
		require.NoError(t, err)
		host := &source.Source{Host: "web", Live: perfdata.NewLive("web"), Target: &bpfmaps.Target{Map: bpfmaps.Map{Name: "execs"}}, Reader: r}
		set.Admitted(host)
		for range n {
			require.NoError(t, k.Output(0, []byte("event")))
			delay, ok := delays.Load(host)
			require.True(t, ok)
			delay.(prometheus.Histogram).Observe(1)
		}
		require.NoError(t, stream.ForEach(func(perfbuf.Event) error { return nil }))
		samples, delayed := served()
		require.EqualValues(t, n, samples)
		require.EqualValues(t, n, delayed)
	}
}
