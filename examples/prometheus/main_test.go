package main

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

func program(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *strings.Builder) {
	stderr = &strings.Builder{}
	cmd = kerneltest.Program(t, args...)
	cmd.Stderr = stderr
	return cmd, stderr
}

// scrape starts the program, returns what it serves once events have come, and ends it with Ctrl-C.
func scrape(t *testing.T, args ...string) string {
	t.Helper()
	cmd, stderr := program(t, append(args, "-listen", "127.0.0.1:0")...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, stderr.String())
	url := strings.TrimSpace(strings.TrimPrefix(line, "metrics are at "))
	samples := regexp.MustCompile(`(?m)^ringfold_samples_total.* [1-9]`)
	for {
		answer, err := http.Get(url)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		if text := string(body); samples.MatchString(text) {
			require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			require.NoError(t, cmd.Wait(), stderr.String())
			require.Empty(t, stderr.String())
			return text
		}
	}
}

func TestServes(t *testing.T) {
	kerneltest.Require(t)
	all := scrape(t)
	require.Contains(t, all, "\nringfold_barrier_provider{provider=")
	require.Contains(t, all, "\nringfold_late_events_total 0\n")
	require.Contains(t, all, "\nringfold_event_delay_seconds_count ")
	require.NotContains(t, all, "cpu=")

	perCPU := scrape(t, "-per-cpu")
	require.Regexp(t, `\nringfold_samples_total\{cpu="\d+"\} \d`, perCPU)
	require.NotContains(t, perCPU, "\nringfold_samples_total ")
}

func TestFails(t *testing.T) {
	kerneltest.Unprivileged(t, "-listen", "127.0.0.1:0")
	cmd, stderr := program(t, "-listen", "127.0.0.1:none")
	require.Error(t, cmd.Run())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "none")
}
