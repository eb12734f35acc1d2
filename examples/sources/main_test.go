package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// untilSeen runs the program, and processes for it to see, ends it with Ctrl-C when seen has returned true for a line, and returns all
// that it has printed.
func untilSeen(t *testing.T, seen func(line string) bool, args ...string) (lines []string) {
	t.Helper()
	kerneltest.Require(t)
	cmd := program(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ctx, cancel := context.WithCancel(t.Context())
	var processes sync.WaitGroup
	processes.Go(func() {
		for ctx.Err() == nil {
			_ = exec.Command("true").Run()
			time.Sleep(100 * time.Millisecond) // else their switches are more than a slow machine reads
		}
	})
	enough := false
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
		if !enough && seen(s.Text()) {
			enough = true
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	cancel()
	processes.Wait()
	require.NoError(t, cmd.Wait(), stderr.String())
	require.True(t, enough)
	return lines
}

type object struct {
	Source, Kind, Text string
	Time               uint64 `json:"time_ns"`
	CPU                int
	Lost               uint64
}

// All sources come in one order, which is that of what has happened: a process is forked, executes, and exits.
func TestJSON(t *testing.T) {
	from, state, lives := map[string]int{}, map[string]string{}, 0
	lines := untilSeen(t, func(line string) bool {
		var o object
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		from[o.Source]++
		switch words := strings.Fields(o.Text); {
		case o.Kind != "sample":
		case o.Source == "forks":
			state[words[2]] = "forked"
		case o.Source == "execs" && state[words[0]] == "forked":
			state[words[0]] = "executes"
		case o.Source == "exits" && state[words[0]] == "executes":
			lives++
		}
		return len(from) == 4 && lives >= 3
	}, "-json")
	before := uint64(0)
	for _, line := range lines {
		var o object
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		if o.Kind == "sample" {
			require.GreaterOrEqual(t, o.Time, before)
			before = o.Time
			require.GreaterOrEqual(t, o.CPU, 0)
		}
	}
}

func TestText(t *testing.T) {
	missing := []string{" forks ", " executes /", " exits with 0", "from 0 to "}
	untilSeen(t, func(line string) bool {
		require.Regexp(t, `^ *\d+\.\d{6}  cpu \d+ +(forks|execs|exits|switches) +\S`, line)
		missing = slices.DeleteFunc(missing, func(s string) bool { return strings.Contains(line, s) })
		return len(missing) == 0
	})
}

// The duration is that of reading.
func TestDuration(t *testing.T) {
	kerneltest.Require(t)
	require.NoError(t, program("-duration", "1ms").Run())
}

func TestFails(t *testing.T) {
	out, err := program("-version").Output()
	require.NoError(t, err)
	require.Equal(t, perfbuf.Version().String()+"\n", string(out))

	kerneltest.RequireRoot(t)
	cmd := program()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err = cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "operation not permitted")
}
