package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// run runs the program to its end, and returns what it prints.
func run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := kerneltest.Program(t, args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// replayed is what -replay -json prints of a file.
func replayed(t *testing.T, file string) (events []event, s summary) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(run(t, "-replay", file, "-json")), "\n")
	var end struct{ Summary *summary }
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &end))
	require.NotNil(t, end.Summary)
	samples := 0
	for _, line := range lines[:len(lines)-1] {
		var ev event
		require.NoError(t, json.Unmarshal([]byte(line), &ev))
		events = append(events, ev)
		if ev.Kind == "sample" {
			samples++
		}
	}
	require.EqualValues(t, samples, end.Summary.Events)
	require.Zero(t, end.Summary.OutOfOrder)
	return events, *end.Summary
}

// A recording and a snapshot are read by perf script and by -replay, with the same events.
func TestPerfReads(t *testing.T) {
	kerneltest.Require(t)
	perf := kerneltest.RequireCommand(t, "perf")
	for name, args := range map[string][]string{"recording": nil, "snapshot": {"-flight", "1h"}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "perf.data")
			record(t, file, args...)
			events, s := replayed(t, file)
			require.NotZero(t, s.Events)
			var want, got []string
			for _, ev := range events {
				if ev.Kind == "sample" {
					want = append(want, fmt.Sprintf("[%03d] %d.%09d: output:", ev.CPU, ev.Time/1e9, ev.Time%1e9))
				}
			}
			cmd := exec.Command(perf, "script", "-i", file, "-F", "cpu,time,event", "--ns")
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			require.NoError(t, err)
			for line := range strings.Lines(string(out)) {
				if fields := strings.Fields(line); len(fields) > 0 && strings.HasPrefix(fields[0], "[") {
					got = append(got, strings.Join(fields, " "))
				}
			}
			require.Equal(t, want, got)
			require.Contains(t, run(t, "-replay", file), fmt.Sprintf("\n%d events, %d lost, 0 out of order\n", s.Events, s.Lost))
		})
	}
}

// begun begins to record, and returns once the BPF programs are attached.
func begun(t *testing.T, file string, args ...string) *exec.Cmd {
	t.Helper()
	kerneltest.Require(t)
	cmd := kerneltest.Program(t, append(args, "-o", file)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "recorder: recording\n", line)
	go io.Copy(io.Discard, lines)
	return cmd
}

// exit runs a process that executes /bin/sh and exits with 7.
func exit(t *testing.T) (pid int) {
	t.Helper()
	sh := exec.Command("/bin/sh", "-c", "exit 7")
	require.Error(t, sh.Run())
	return sh.Process.Pid
}

// record records one such process, from before it began until it has ended.
func record(t *testing.T, file string, args ...string) (pid int, began uint64) {
	t.Helper()
	recorder := begun(t, file, args...)
	began = perfbuf.Now()
	pid = exit(t)
	require.NoError(t, recorder.Process.Signal(syscall.SIGUSR1))
	require.NoError(t, recorder.Wait())
	return pid, began
}

// What has ended before the signal is in the file, whole.
func TestSignal(t *testing.T) {
	for name, args := range map[string][]string{"recording": nil, "snapshot": {"-flight", "1h"}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "perf.data")
			for {
				pid, began := record(t, file, args...)
				events, s := replayed(t, file)
				if s.Lost > 0 || name == "snapshot" && s.Since > began {
					continue // other processes output more meanwhile than rings have room for
				}
				executes, exits := fmt.Sprintf("%d executes /bin/sh", pid), fmt.Sprintf("%d exits with 7", pid)
				var texts []string
				for _, ev := range events {
					if ev.Text == executes || ev.Text == exits {
						require.Equal(t, 68, ev.Len) // 64, and padding
						texts = append(texts, ev.Text)
					}
				}
				require.Equal(t, []string{executes, exits}, texts)
				return
			}
		})
	}
}

// A snapshot has nothing that is older than it should be.
func TestLast(t *testing.T) {
	file := filepath.Join(t.TempDir(), "perf.data")
	recorder := begun(t, file, "-flight", "200ms")
	exit(t)
	old := perfbuf.Now()
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, recorder.Process.Signal(os.Interrupt))
	require.NoError(t, recorder.Wait())
	events, s := replayed(t, file)
	require.Less(t, s.Last-s.First, uint64(200*time.Millisecond))
	require.Greater(t, s.Since, old)
	for _, ev := range events { // there may be none: the machine may be busy with other things
		require.GreaterOrEqual(t, ev.Time, s.Since)
	}
}

func TestDuration(t *testing.T) {
	kerneltest.Require(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	run(t, "-o", file, "-duration", "1ms")
	replayed(t, file)
}

// A file that was cut is printed as far as it goes, and then there is an error.
func TestCut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "perf.data")
	record(t, file, "-flight", "1h")
	events, _ := replayed(t, file)
	st, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, st.Size()-8))
	var stderr strings.Builder
	cmd := kerneltest.Program(t, "-replay", file, "-json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.Error(t, err)
	require.Contains(t, stderr.String(), "it was cut: at offset")
	require.Equal(t, len(events), strings.Count(string(out), "\n")) // one less, and the summary
	require.Contains(t, string(out), `{"summary":{"events":`)
}

func TestErrors(t *testing.T) {
	for _, args := range [][]string{nil, {"-o", "x", "-replay", "y"}, {"-o", "x", "nonsense"}} {
		out, err := kerneltest.Program(t, args...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "give either -o FILE or -replay FILE")
		require.Contains(t, string(out), perfbuf.Version())
	}
	out, err := kerneltest.Program(t, "-replay", "/nonexistent").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "no such file")
	kerneltest.Unprivileged(t, "-o", filepath.Join(t.TempDir(), "perf.data"))
}
