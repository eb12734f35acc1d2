// Package collectortest checks that a stock OpenTelemetry collector gets all that ringfold record -w otlp:// sends. It is a
// module of its own, for the collector's dependencies.
package collectortest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"github.com/ringfold/ringfold/internal/recordingtest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// config is what a user would write, less the collector's own telemetry, which needs a port.
const config = `yaml:
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}
exporters: {file: {path: "%s", append: true, flush_interval: 100ms}}
service:
  pipelines: {logs: {receivers: [otlp], exporters: [file]}}
  telemetry: {metrics: {level: none}, logs: {level: error}}
`

// run runs a collector, and returns when it takes requests. stop ends it, and waits for that.
func run(t *testing.T, address, file string) (stop func()) {
	t.Helper()
	c, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo:               component.NewDefaultBuildInfo(),
		DisableGracefulShutdown: true,
		Factories: func() (f otelcol.Factories, err error) {
			f.Telemetry = otelconftelemetry.NewFactory()
			if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
				return f, err
			}
			f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory())
			return f, err
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{fmt.Sprintf(config, address, file)},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	for c.GetState() != otelcol.StateRunning {
		select {
		case err := <-ended:
			require.NoError(t, err, "it did not start")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return func() {
		c.Shutdown()
		require.NoError(t, <-ended)
	}
}

// address is one that nobody has.
func address(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// tool builds ringfold, with its own go.mod.
func tool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ringfold")
	build := exec.Command("go", "-C", "../../..", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	return path
}

// sums are those of the records that a collector has written, each counted once.
func sums(t *testing.T, file string) (events, lost uint64) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	seen, last := map[string]bool{}, pcommon.Timestamp(0)
	for line := range bytes.Lines(text) {
		all, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
		require.NoError(t, err)
		for _, resource := range all.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, r := range scope.LogRecords().All() {
					uid, ok := r.Attributes().Get("log.record.uid")
					require.True(t, ok)
					if seen[uid.Str()] {
						continue // a request that had no answer was sent again
					}
					seen[uid.Str()] = true
					require.GreaterOrEqual(t, r.Timestamp(), last, "in order")
					last = r.Timestamp()
					kind, _ := r.Attributes().Get("ringfold.kind")
					if n, ok := r.Attributes().Get("ringfold.count"); ok {
						require.Equal(t, "lost", kind.Str())
						require.Equal(t, plog.SeverityNumberWarn, r.SeverityNumber())
						lost += uint64(n.Int())
					} else {
						require.Equal(t, "sample", kind.Str())
						require.Equal(t, pcommon.ValueTypeBytes, r.Body().Type())
						events++
					}
				}
			}
		}
	}
	return events, lost
}

// What is in a recording arrives, whole and in order.
func TestRecording(t *testing.T) {
	dir := t.TempDir()
	to, out, data := address(t), filepath.Join(dir, "logs.json"), filepath.Join(dir, "events.data")
	events, lost := recordingtest.Lossy(t, data, 5000)
	stop := run(t, to, out)
	said, err := exec.Command(tool(t), "record", data, "-w", "otlp://"+to).CombinedOutput()
	require.NoErrorf(t, err, "%s", said)
	require.Contains(t, string(said), fmt.Sprintf("otlp://%s: %d events", to, events))
	stop()
	gotEvents, gotLost := sums(t, out)
	require.Equal(t, []uint64{events, lost}, []uint64{gotEvents, gotLost})
}

// So does it if the collector begins late, and ends and begins again in the middle.
func TestRestarted(t *testing.T) {
	dir := t.TempDir()
	to, out, data := address(t), filepath.Join(dir, "logs.json"), filepath.Join(dir, "events.data")
	events, lost := recordingtest.Lossy(t, data, 300_200)
	cmd := exec.Command(tool(t), "record", data, "-w", "otlp://"+to)
	notes := filepath.Join(dir, "notes")
	said, err := os.Create(notes)
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill() // if the test has failed
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	until := func(what func() bool) {
		for !what() {
			select {
			case err := <-ended:
				text, _ := os.ReadFile(notes)
				require.Failf(t, "ended early", "%v: %s", err, text)
			case <-time.After(time.Millisecond):
			}
		}
	}
	waiting := func(times int) func() bool {
		return func() bool {
			text, err := os.ReadFile(notes)
			return err == nil && strings.Count(string(text), "waiting for the collector at otlp://"+to) == times
		}
	}
	until(waiting(1))
	stop := run(t, to, out)
	until(func() bool {
		st, err := os.Stat(out)
		return err == nil && st.Size() > 0
	})
	stop()
	until(waiting(2))
	stop = run(t, to, out)
	err = <-ended
	text, _ := os.ReadFile(notes)
	require.NoErrorf(t, err, "%s", text)
	stop()
	gotEvents, gotLost := sums(t, out)
	require.Equal(t, []uint64{events, lost}, []uint64{gotEvents, gotLost})
}
