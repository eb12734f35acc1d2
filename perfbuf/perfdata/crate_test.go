package perfdata_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
)

// linux-perf-data, the Rust crate by which samply and others read perf.data, reads the same as
// perf. Debian has it as librust-linux-perf-data-dev.
func TestLinuxPerfDataReads(t *testing.T) {
	const crates = "/usr/share/cargo/registry"
	if found, _ := filepath.Glob(crates + "/linux-perf-data-*"); len(found) == 0 {
		kerneltest.RequireCommand(t, "librust-linux-perf-data-dev")
	}
	target, err := filepath.Abs("../../build/linux-perf-data") // which cargo does not build twice
	require.NoError(t, err)
	dir := t.TempDir() // cargo writes into it
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/linux-perf-data")))
	build := exec.Command(kerneltest.RequireCommand(t, "cargo"), "build", "--quiet", "--offline", "--target-dir", target,
		"--config", `source.crates-io.replace-with="debian"`, "--config", fmt.Sprintf("source.debian.directory=%q", crates))
	build.Dir = dir
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	path := filepath.Join(t.TempDir(), "perf.data")
	rec, err := perfdata.Create(path, perfdata.Options{Events: []perfdata.EventInfo{{Name: "execs"}}})
	require.NoError(t, err)
	recorded := mixed(t, rec)
	require.NoError(t, rec.Flush())
	for _, name := range []string{"?", "execs"} { // unclosed files show no name
		var want []string
		for _, r := range recorded {
			at := fmt.Sprintf("%s Some(%d) Some(%d)", name, r.CPU, r.Time)
			switch {
			case r.Kind == perfbuf.KindLost:
				want = append(want, fmt.Sprintf("lost %s %d", at, r.Lost))
			case r.Kind == perfbuf.KindSample && len(r.Data) <= perfdata.MaxSample:
				want = append(want, "sample "+at+" "+hex.EncodeToString(r.Data))
			}
		}
		out, err := exec.Command(filepath.Join(target, "debug", "records"), path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		var got []string
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "sample "+name) || strings.HasPrefix(line, "lost ") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		if name == "?" { // the event named corrupt, too
			got = slices.DeleteFunc(got, func(line string) bool { return !slices.Contains(want, line) })
		}
		require.Equal(t, want, got)
		require.Contains(t, string(out), "LOST_SAMPLES "+name)
		if name == "?" {
			require.NoError(t, rec.Close())
		}
	}
}
