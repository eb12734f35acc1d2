package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv("TRACE2PERFETTO_TEST_PROGRAM") == "1" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "TRACE2PERFETTO_TEST_PROGRAM=1")
	return cmd
}

// It records until Ctrl-C, what it says of it is so, and the file is complete.
func TestRecord(t *testing.T) {
	kerneltest.Require(t)
	file := filepath.Join(t.TempDir(), "trace.json")
	cmd := program("-o", file, "-duration", "0", "-json", "-ring-bytes", "1048576")
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	path, err := exec.LookPath("true")
	require.NoError(t, err)

	// It may attach its programs at any time from now on. What it has seen it writes when enough has come together.
	pids := map[int]bool{}
	for written := int64(0); written == 0; {
		child := exec.Command(path)
		require.NoError(t, child.Run())
		pids[child.Process.Pid] = true
		select {
		case err := <-ended:
			t.Fatal(err, messages.String())
		default:
		}
		if info, err := os.Stat(file); err == nil {
			written = info.Size()
		}
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, <-ended, messages.String())
	require.Empty(t, messages.String())

	var sum summary
	require.NoError(t, json.Unmarshal(out.Bytes(), &sum))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	got := read(t, bytes.NewReader(content))
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	require.Len(t, cpus, sum.CPUs)
	require.Len(t, got.tracks, sum.CPUs, "a track for each CPU")
	slices, instants := 0, map[string]uint64{}
	for _, track := range got.tracks {
		slices += len(track.slices)
		for _, i := range track.instants {
			instants[i.what]++
		}
	}
	require.EqualValues(t, sum.Slices, slices)
	require.Equal(t, sum.Execs, instants["exec"])
	require.Equal(t, sum.Exits, instants["exit"])
	require.Equal(t, sum.Forks, instants["fork"]+instants["clone"])
	require.Len(t, got.counters, 2*sum.CPUs)
	require.Positive(t, sum.Seconds)

	// Of these processes, those are recorded that ran after programs were attached, and each did what it did in a slice of its own.
	seen := map[int]map[string]bool{}
	for _, track := range got.tracks {
		for _, i := range track.instants {
			if !pids[i.pid] {
				continue
			}
			if seen[i.pid] == nil {
				seen[i.pid] = map[string]bool{}
			}
			seen[i.pid][i.what] = true
			require.Equal(t, i.pid, i.running, "%s at %v µs while %d ran", i.what, i.time, i.running)
			if i.what == "exec" {
				require.Equal(t, path, i.args["file"])
			} else if i.what == "exit" {
				require.EqualValues(t, 0, i.args["status"])
			}
		}
	}
	both := 0
	for _, what := range seen {
		if what["exec"] && what["exit"] {
			both++
		}
	}
	if sum.Lost == 0 {
		require.GreaterOrEqual(t, both, len(seen)-2, "the first and the last may be seen in part")
	}
	require.Positive(t, both)
}

// It ends by itself, and compresses.
func TestDuration(t *testing.T) {
	kerneltest.Require(t)
	file := filepath.Join(t.TempDir(), "trace.json.gz")
	out, err := program("-o", file, "-duration", "50ms", "-ring-bytes", "65536").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "ui.perfetto.dev")
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	got := read(t, z)
	require.Contains(t, got.other, "summary")
	require.NotEmpty(t, got.tracks)
}

func TestStandardOutput(t *testing.T) {
	kerneltest.Require(t)
	out, err := program("-o", "-", "-duration", "1ms").Output()
	require.NoError(t, err)
	require.NotEmpty(t, read(t, bytes.NewReader(out)).tracks)
}

// Nothing is left, and no earlier file spoilt, if there is nothing to record.
func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	file := filepath.Join(t.TempDir(), "trace.json")
	require.NoError(t, os.WriteFile(file, []byte("of before"), 0o644))
	cmd := program("-o", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "lacks CAP_BPF and CAP_PERFMON")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "of before", string(content))
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		{[]string{"-h"}, 0, "Usage: trace2perfetto", ""},
		{[]string{"-version"}, 0, perfbuf.Version().String(), ""},
		{[]string{"-x"}, 2, "", "flag provided but not defined: -x"},
		{[]string{"x"}, 2, "", `unknown argument "x"`},
		{[]string{"-duration", "-1s"}, 2, "", "must not be negative"},
		{[]string{"-file", "a", "-record", "b"}, 2, "", "is a recording already"},
		{[]string{"-json", "-o", "-"}, 2, "", "name a file"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.status, run(c.args, &stdout, &stderr), c.args)
		require.Contains(t, stdout.String(), c.stdout)
		require.Contains(t, stderr.String(), c.stderr)
	}
}

func TestUnwritable(t *testing.T) {
	kerneltest.Require(t)
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-o", filepath.Join(t.TempDir(), "none", "trace.json"), "-duration", "1ms"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "no such file or directory")
}
