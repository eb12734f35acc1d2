package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv("SOURCES_TEST_PROGRAM") == "1" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "SOURCES_TEST_PROGRAM=1")
	return cmd
}

// All sources come in one order, which is that of what has happened: a process is forked, executes, and exits.
func TestJSON(t *testing.T) {
	kerneltest.Require(t)
	cmd := program("-json", "-duration", "2s")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var end struct{ Summary *summary }
	require.NoError(t, json.Unmarshal(lines[len(lines)-1], &end))
	require.NotNil(t, end.Summary)

	samples, before, from, state, lives := uint64(0), uint64(0), map[string]int{}, map[string]string{}, 0
	for _, line := range lines[:len(lines)-1] {
		var o object
		require.NoError(t, json.Unmarshal(line, &o))
		if o.Kind != "sample" {
			continue
		}
		samples++
		require.GreaterOrEqual(t, o.Time, before)
		before = o.Time
		require.GreaterOrEqual(t, o.CPU, 0)
		from[o.Source]++
		switch words := strings.Fields(o.Text); o.Source {
		case "forks":
			state[words[2]] = "forked"
		case "execs":
			if state[words[0]] == "forked" {
				state[words[0]] = "executes"
			}
		case "exits":
			if state[words[0]] == "executes" {
				lives++
			}
		}
	}
	require.Len(t, from, 4)
	require.NotZero(t, lives)
	require.Equal(t, 4, end.Summary.Sources)
	require.Equal(t, samples, end.Summary.Events)
	require.Zero(t, end.Summary.OutOfOrder)
	require.Zero(t, end.Summary.Late)
}

func TestText(t *testing.T) {
	kerneltest.Require(t)
	out, err := program("-duration", "500ms").Output()
	require.NoError(t, err)
	for _, want := range []string{" forks ", " executes /", " exits with 0", "from 0 to ", " of 4 sources, 0 out of order, 0 late, "} {
		require.Contains(t, string(out), want)
	}
}

func TestErrors(t *testing.T) {
	out, err := program("nonsense").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), perfbuf.Version().String())

	kerneltest.RequireRoot(t)
	cmd := program()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err = cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "operation not permitted")
}
