package perfdata_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// mixed records a few events on two CPUs: samples, a loss, corrupt memory, a sample that is too
// large.
func mixed(t *testing.T, rec *perfdata.Recorder) (recorded []perfbuf.Record) {
	t.Helper()
	k, r := simulated(t, perfbuf.Options{RingBytes: 128 << 10})
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	defer s.Close()
	drain := func() {
		require.NoError(t, s.ForEachPending(func(ev perfbuf.Event) error {
			recorded = append(recorded, ev.Record())
			return rec.Record(ev)
		}))
	}
	for i := range 20 {
		k.Advance(time.Microsecond)
		require.NoError(t, k.Output(i%2, append([]byte("payload "), make([]byte, i)...)))
	}
	drain()
	k.Advance(time.Microsecond)
	require.NoError(t, k.Output(0, make([]byte, perfdata.MaxSample+1))) // too large for the file
	drain()
	k.Advance(time.Microsecond)
	require.NoError(t, k.Output(1, make([]byte, 70000))) // corrupt
	drain()
	for k.Output(1, make([]byte, 1000)) == nil {
		k.Advance(time.Microsecond)
	}
	drain()
	k.Advance(time.Microsecond)
	require.NoError(t, k.Output(1, []byte("after the loss")))
	drain()
	return recorded
}

func perf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(kerneltest.RequireCommand(t, "perf"), args...)
	cmd.Env = append(os.Environ(), "PAGER=cat")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", stderr.String())
	return string(out)
}

// perf's programs read a recording: each record, the CPU, the time, the payload's bytes, the
// losses, the name, the machine.
func TestPerfReads(t *testing.T) {
	dir := t.TempDir()
	var recorded []perfbuf.Record
	path := record(t, perfdata.Options{Events: []perfdata.EventInfo{{Name: "execs", BTF: []byte("a type")}}}, func(rec *perfdata.Recorder) {
		recorded = mixed(t, rec)
	})
	piped := piped(t, perfdata.Options{Events: []perfdata.EventInfo{{Name: "execs"}}, Since: 1_000_002_000, Until: 3_000_004_000},
		func(rec *perfdata.Recorder) { mixed(t, rec) })

	var want []string
	for _, r := range recorded {
		at := fmt.Sprintf("[%03d] %d.%09d:", r.CPU, r.Time/1e9, r.Time%1e9)
		switch {
		case r.Kind == perfbuf.KindCorrupt:
			want = append(want, at+" corrupt:")
		case r.Kind == perfbuf.KindSample && len(r.Data) <= perfdata.MaxSample:
			want = append(want, at+" execs:")
		}
	}
	for _, path := range []string{path, piped} {
		var got []string
		for line := range strings.Lines(perf(t, "script", "-i", path, "-F", "cpu,time,event", "--ns")) {
			if strings.HasPrefix(strings.TrimSpace(line), "[") {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
		}
		require.Equal(t, want, got, path)
		require.Contains(t, perf(t, "script", "-i", path), `"after the loss"`)
		dump := perf(t, "report", "-D", "-i", path)
		require.Equal(t, len(want), strings.Count(dump, "PERF_RECORD_SAMPLE("))
		require.Equal(t, 1, strings.Count(dump, "PERF_RECORD_LOST:"))
		require.Equal(t, 1, strings.Count(dump, "PERF_RECORD_LOST_SAMPLES"))
		require.Contains(t, perf(t, "report", "--header-only", "-i", path), "name = execs")

		script := filepath.Join(dir, "script.py")
		require.NoError(t, os.WriteFile(script, []byte(`
def process_event(p):
    print("event", p["ev_name"], p["sample"]["cpu"], p["sample"]["time"], bytes(p["raw_buf"]).hex())
`), 0o600))
		out := perf(t, "script", "-i", path, "-s", script)
		require.Equal(t, len(want), strings.Count(out, "event "))
		for _, r := range recorded {
			if r.Kind == perfbuf.KindSample && len(r.Data) <= perfdata.MaxSample {
				require.Contains(t, out, fmt.Sprintf("event execs %d %d %x\n", r.CPU, r.Time, r.Data))
			}
		}
	}
	injected := filepath.Join(dir, "injected.data") // written anew by perf
	perf(t, "inject", "-i", path, "-o", injected)
	got, err := replayed(t, injected, perfdata.ReplayOptions{Event: "execs"}, &perfbuf.StreamOptions{})
	require.Equal(t, io.EOF, err)
	require.Equal(t, samples(recorded), samples(got))
	require.Equal(t, rest(recorded), rest(got))
	require.Contains(t, perf(t, "report", "--header-only", "-i", piped), "time of first sample : 1.000002")
	require.Contains(t, perf(t, "report", "--header-only", "-i", piped), "time of last sample : 3.000004")
	gen := exec.Command(kerneltest.RequireCommand(t, "perf"), "script", "-i", path, "-g", "python")
	gen.Dir = dir
	out, err := gen.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.FileExists(t, filepath.Join(dir, "perf-script.py"))
}
