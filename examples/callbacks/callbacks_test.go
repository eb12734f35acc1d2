package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv("CALLBACKS_TEST_PROGRAM") == "1" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Exit(m.Run())
}

// program is a command that runs the program in a process of its own.
func program(args ...string) (cmd *exec.Cmd, stderr *strings.Builder) {
	stderr = &strings.Builder{}
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "CALLBACKS_TEST_PROGRAM=1")
	cmd.Stderr = stderr
	return cmd, stderr
}

// Each way receives events.
func TestWays(t *testing.T) {
	kerneltest.Require(t)
	cmd, stderr := program("-duration", "500ms", "-json")
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(names))
	for i, line := range lines {
		var got struct {
			Way            string
			Received, Lost *uint64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got), line)
		require.Equal(t, names[i], got.Way)
		require.NotZero(t, *got.Received, line)
		require.NotNil(t, got.Lost)
	}
}

// Ctrl-C, which all processes of the group get, ends the first way in the middle, and the program with it.
func TestInterrupt(t *testing.T) {
	kerneltest.Require(t)
	cmd, stderr := program("-duration", "1h")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout strings.Builder
	cmd.Stdout = &stdout
	require.NoError(t, cmd.Start())
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	for !hasChild(cmd.Process.Pid) { // the traced program: the way has begun
		select {
		case err := <-ended:
			require.FailNow(t, "the program has ended", "%v: %s", err, stderr)
		case <-time.After(time.Millisecond):
		}
	}
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	require.NoError(t, <-ended, stderr)
	require.Regexp(t, `^channels +\d+ received +\d+ lost\n$`, stdout.String())
}

func hasChild(pid int) bool {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	return slices.ContainsFunc(lists, func(list string) bool {
		children, _ := os.ReadFile(list) // a thread may end meanwhile
		return len(children) > 0
	})
}

func TestVersion(t *testing.T) {
	cmd, _ := program("-version")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, perfbuf.Version().String()+"\n", string(out))
}

func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	cmd, stderr := program()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	require.Error(t, cmd.Run())
	require.Contains(t, stderr.String(), "operation not permitted")
}
