package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv("PROMETHEUS_TEST_PROGRAM") == "1" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Exit(m.Run())
}

func program(args ...string) (cmd *exec.Cmd, stderr *strings.Builder) {
	stderr = &strings.Builder{}
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "PROMETHEUS_TEST_PROGRAM=1")
	cmd.Stderr = stderr
	return cmd, stderr
}

// scrape starts the program, returns what it serves once events have come, and ends it with Ctrl-C.
func scrape(t *testing.T, args ...string) string {
	t.Helper()
	cmd, stderr := program(append(args, "-listen", "127.0.0.1:0")...)
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
	require.Contains(t, all, "\ngo_goroutines ")
	require.NotContains(t, all, "cpu=")

	// What the dashboard shows is there.
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	file, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(file, &board))
	names := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`\b(ringfold|event)_[a-z0-9_]+`).FindAllString(target.Expr, -1) {
				if name != "ringfold_outputs_refused_total" { // takes Options.Outputs
					require.Contains(t, all, "\n"+name, p.Title)
				}
				names++
			}
		}
	}
	require.Greater(t, names, 15)

	perCPU := scrape(t, "-per-cpu")
	require.Regexp(t, `\nringfold_samples_total\{cpu="\d+"\} \d`, perCPU)
	require.NotContains(t, perCPU, "\nringfold_samples_total ")
}

func TestUsage(t *testing.T) {
	cmd, _ := program("-h")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, usage, string(out))
	cmd, _ = program("-version")
	out, err = cmd.Output()
	require.NoError(t, err)
	require.Equal(t, perfbuf.Version().String()+"\n", string(out))
	cmd, stderr := program("what")
	require.Error(t, cmd.Run())
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	require.Equal(t, fmt.Sprintf("prometheus: unknown argument %q\n%s", "what", usage), stderr.String())
}

func TestFails(t *testing.T) {
	kerneltest.RequireRoot(t)
	cmd, stderr := program("-listen", "127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	require.Error(t, cmd.Run())
	require.Contains(t, stderr.String(), "uid 65534 may not load BPF programs: run it as root")

	cmd, stderr = program("-listen", "127.0.0.1:none")
	require.Error(t, cmd.Run())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "none")
}
