package top

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// recording is one of n events of 2 CPUs, a millisecond apart.
func recording(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.data")
	clitest.Recording(t, path, perfdata.Options{}, time.Millisecond, slices.Repeat([][]byte{[]byte("event")}, n)...)
	return path
}

// Of a recording, which has no rings, nothing says how full they are.
func TestNoRings(t *testing.T) {
	var out strings.Builder
	f := newFrame(began, snapshot{at: began}, at(time.Second, perfbuf.RingStats{Samples: 3}))
	require.NoError(t, printer{out: &out, format: cli.Compact}.frame(f))
	require.Contains(t, out.String(), " 3 events/s 0 B/s 0 lost/s use - high - late 0\n")
	out.Reset()
	require.NoError(t, printer{out: &out}.frame(f))
	require.Regexp(t, `doorbell +- +wakeups/s +0 +rings +-\n`, out.String())
	require.Regexp(t, `\n   0 +- +- +3 +0 B +0 +0 +- +-\n`, out.String())
}

// A recording is replayed at its own pace. At its end, so is this.
func TestRecording(t *testing.T) {
	const n = 100
	path := recording(t, n)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+"2", whole, 0o600))
	for _, m := range modes {
		began := time.Now()
		status, out, stderr := clitest.Run(t, Command, path, "--json", "--mode", string(m))
		require.Zero(t, status, stderr)
		require.Empty(t, stderr)
		require.GreaterOrEqual(t, time.Since(began), (n-1)*time.Millisecond)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var last struct{ Summary *frame }
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
		require.EqualValues(t, n, last.Summary.Delivered)
		require.Zero(t, last.Summary.Late+last.Summary.Lost+last.Summary.Dropped)
		require.Len(t, last.Summary.Rings, 2)
		for _, r := range last.Summary.Rings {
			require.Zero(t, r.Size+r.Used+r.HighWater, "there are no rings to be full")
		}

		status, out, stderr = clitest.Run(t, Command, path, recording(t, 2*n), "-o", "compact", "--mode", string(m))
		require.Zero(t, status, stderr)
		require.Regexp(t, `(?m)^# 300 events delivered in \S+, 0 lost\n$`, out)
	}
	status, out, stderr := clitest.Run(t, Command, path, "file", path+"2", "-o", "compact", "-i", "20ms")
	require.Zero(t, status, stderr)
	require.Regexp(t, `(?m)^0:00 exact .*(\n.*)*\n# 200 events delivered in \S+, 0 lost\n$`, out)

	// What is there of one that was cut is shown, and that it was.
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	status, out, stderr = clitest.Run(t, Command, path)
	require.Equal(t, 1, status)
	require.Regexp(t, `[1-9]\d* events delivered`, out)
	require.Contains(t, stderr, "cut")
}
