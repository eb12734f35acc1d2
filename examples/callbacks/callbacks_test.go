package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// Each way receives events.
func TestWays(t *testing.T) {
	kerneltest.Require(t)
	for duration := 100 * time.Millisecond; !receive(t, duration); duration *= 2 { // a busy machine takes longer to begin
	}
}

// receive runs each way for a while, and reports whether all have received events.
func receive(t *testing.T, duration time.Duration) bool {
	out, err := kerneltest.Program(t, "-duration", duration.String()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, len(names))
	for i, line := range lines {
		require.Regexp(t, "^"+names[i]+` +\d+ received +\d+ lost$`, line)
	}
	return !strings.Contains(string(out), " 0 received")
}

// Ctrl-C, which all processes of the group get, ends the first way in the middle, and the program with it.
func TestInterrupt(t *testing.T) {
	kerneltest.Require(t)
	cmd := kerneltest.Program(t, "-duration", "1h")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	for !hasChild(cmd.Process.Pid) { // the traced program: the way has begun
		select {
		case err := <-ended:
			require.FailNow(t, "the program has ended", "%v: %s", err, out.String())
		case <-time.After(time.Millisecond):
		}
	}
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	require.NoError(t, <-ended, out.String())
	require.Regexp(t, `^channels +\d+ received +\d+ lost\n$`, out.String())
}

func hasChild(pid int) bool {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	return slices.ContainsFunc(lists, func(list string) bool {
		children, _ := os.ReadFile(list) // a thread may end meanwhile
		return len(children) > 0
	})
}

func TestNoPrivilege(t *testing.T) { kerneltest.Unprivileged(t) }
