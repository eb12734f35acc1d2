package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	clitest.Program(Command)
	os.Exit(m.Run())
}

// program is the command in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	cmd, _ := clitest.Command(t, append([]string{"trace"}, args...)...)
	cmd.Stderr = nil
	return cmd
}

// run runs the command in this process.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	return clitest.Run(t, Command, args...)
}

// summaryOf is what a command has printed as JSON.
func summaryOf(t *testing.T, line string) summary {
	t.Helper()
	var s struct{ Summary *summary }
	require.NoError(t, json.Unmarshal([]byte(line), &s), line)
	require.NotNil(t, s.Summary)
	return *s.Summary
}

// It records until Ctrl-C, what it says of it is so, and the file is complete.
func TestRecord(t *testing.T) {
	kerneltest.Require(t)
	file := filepath.Join(t.TempDir(), "trace.json")
	cmd := program(t, "-w", file, "--timeout", "0", "--json", "--ring-size", "1MiB")
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
		unfinished, err := filepath.Glob(file + ".part*")
		require.NoError(t, err)
		for _, part := range unfinished {
			if info, err := os.Stat(part); err == nil {
				written = info.Size()
			}
		}
	}
	// Whatever has filled the file up to here: this one runs when all programs are attached.
	whole := exec.Command(path)
	require.NoError(t, whole.Run())
	pids[whole.Process.Pid] = true
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, <-ended, messages.String())
	require.Empty(t, messages.String())

	sum := summaryOf(t, out.String())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	got := read(t, bytes.NewReader(content))
	cpus := kerneltest.OnlineCPUs(t)
	require.Len(t, cpus, sum.CPUs)
	require.Len(t, got.tracks, sum.CPUs, "a track for each CPU")
	slices, instants := 0, map[string]uint64{}
	for _, track := range got.tracks {
		for _, s := range track.slices {
			if s.args["events"] == nil { // else these are lost there
				slices++
			}
		}
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
	require.Less(t, sum.Seconds, 3600.)

	// What these processes did is in a slice of their own, and at most one arrow goes to each.
	did := map[string]int{}
	for _, track := range got.tracks {
		for _, i := range track.instants {
			if !pids[i.pid] {
				continue
			}
			did[fmt.Sprint(i.what, i.pid)]++
			require.Equal(t, i.pid, i.running, "%s at %v µs while %d ran", i.what, i.time, i.running)
			if i.what == "exec" {
				require.Equal(t, path, i.args["file"])
			} else if i.what == "exit" {
				require.EqualValues(t, 0, i.args["status"])
			}
		}
	}
	for _, a := range got.arrows {
		if pids[int(a.child)] {
			did[fmt.Sprint("arrow", a.child)]++
		}
	}
	for what, n := range did {
		require.Equal(t, 1, n, what)
	}
	pid := whole.Process.Pid
	if sum.Lost == 0 {
		require.Equal(t, []int{1, 1}, []int{did[fmt.Sprint("exec", pid)], did[fmt.Sprint("exit", pid)]})
	}
	if sum.Lost+sum.Unseen == 0 {
		require.Equal(t, 1, did[fmt.Sprint("arrow", pid)])
	}
}

// It ends by itself, or with a command, and compresses.
func TestEnds(t *testing.T) {
	kerneltest.Require(t)
	file := filepath.Join(t.TempDir(), "trace.json.gz")
	status, out, notes := run(t, "-w", file, "--timeout", "50ms", "--ring-size", "64KiB")
	require.Zero(t, status, notes)
	require.Contains(t, out, "ui.perfetto.dev")
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	got := read(t, z)
	require.Contains(t, got.other, "summary")
	require.NotEmpty(t, got.tracks)

	status, out, notes = run(t, "-w", "-", "--", "sh", "-c", "sleep 0.01; exit 3") // without an end of its own
	require.Zero(t, status, notes)
	require.NotEmpty(t, read(t, strings.NewReader(out)).tracks)
	require.Contains(t, notes, "\nsh: exit status 3\n")
}

// Nothing is left, and no earlier file spoilt, if there is nothing to record.
func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	dir, err := os.MkdirTemp("", "trace")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777))
	file := filepath.Join(dir, "trace.json")
	require.NoError(t, os.WriteFile(file, []byte("of before"), 0o644))
	cmd := program(t, "-w", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "lacks CAP_BPF and CAP_PERFMON: run it as root (sudo)")
	require.Equal(t, 1, strings.Count(string(out), "\n"), string(out))
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "of before", string(content))
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestArguments(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"--nonsense":        "unknown flag: --nonsense",
		"x":                 `"x": name a map`,
		"--timeout -1s":     "must not be negative",
		"a.data --record b": "--record is for the events of",
		"--json -w -":       "--json prints where --write - w",
		"--write=":          "--write: name a file",
		"--filter cpu==1":   "--filter is for maps",
		"--mode slack":      "--mode is for maps",
	})
}

// A command and a recording have their own end.
func TestTimeout(t *testing.T) {
	for _, given := range []bool{false, true} {
		c := config{write: "x"}
		c.Timeout, c.Flags.Command = time.Second, []string{"make"}
		require.NoError(t, c.check(func(flag string) bool { return given && flag == "timeout" }))
		require.Equal(t, given, c.Timeout != 0)
	}
}

// A trace destroys no file that it reads or writes otherwise, and leaves what it cannot complete.
func TestFiles(t *testing.T) {
	kerneltest.Require(t)
	recorded, err := os.ReadFile("../../../../perfbuf/perfdata/testdata/exec.perf.data")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("x.data", recorded, 0o600))
	for args, want := range map[string]string{
		"x.data -w x.data":               "x.data is read: write to another file",
		"-w x.data --record ./x.data":    "x.data and ./x.data are written to, and would replace each other",
		"-w none/trace.json":             "no such file or directory",
		"-w x.json --record none/x.data": "no such file or directory",
		"-w x.json -- /no/such/program":  "running /no/such/program",
	} {
		status, _, said := run(t, append(strings.Fields(args), "--timeout", "1ms")...)
		require.Equal(t, 1, status)
		require.Contains(t, said, want)
	}
	content, err := os.ReadFile("x.data")
	require.NoError(t, err)
	require.Equal(t, recorded, content)
	all, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, all, 1)

	status, _, said := run(t, "x.data", "-w", "x.json")
	require.Zero(t, status, said)
	info, err := os.Lstat("x.json")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	out, err := newOutput("cut.json", nil)
	require.NoError(t, err)
	_, err = out.Write([]byte("half"))
	require.NoError(t, err)
	err = out.close(syscall.ENOSPC)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Regexp(t, `no space left on device; what there is of the trace is in \./cut\.json\.part\d+$`, err.Error())
	left, err := filepath.Glob("cut.json.part*")
	require.NoError(t, err)
	content, err = os.ReadFile(left[0])
	require.NoError(t, err)
	require.Equal(t, "half", string(content))
}
