package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the program (see program), and the program's workload.
func TestMain(m *testing.M) {
	if os.Getenv("CALLBACKS_TEST_PROGRAM") == "1" || os.Getenv(callsEnv) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	leak.Main(m)
}

// program is a command that runs the program in a process of its own.
func program(args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	stderr = &bytes.Buffer{}
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "CALLBACKS_TEST_PROGRAM=1")
	cmd.Stderr = stderr
	return cmd, stderr
}

// failure is the exit status of a program that should fail.
func failure(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	return exit.ExitCode()
}

// Each way has received or lost every event, at a rate that all of them can follow and at more than that.
func TestWays(t *testing.T) {
	kerneltest.Require(t)
	cpus, err := usableCPUs()
	require.NoError(t, err)
	for _, rate := range []int{5000, 0} {
		for _, way := range ways {
			cmd, stderr := program("-way", way.name, "-duration", "300ms", "-rate", strconv.Itoa(rate), "-json")
			out, err := cmd.Output()
			require.NoError(t, err, stderr.String())
			require.Empty(t, stderr.String())
			t.Logf("%s", out)

			var got struct {
				Way               string
				Received          map[string]uint64
				Lost, Attempted   uint64
				Seconds           float64
				CPUSeconds        float64 `json:"cpu_seconds"`
				SecondsPerMillion float64 `json:"cpu_seconds_per_million"`
			}
			d := json.NewDecoder(bytes.NewReader(out))
			require.NoError(t, d.Decode(&got))
			require.ErrorIs(t, d.Decode(&got), io.EOF)
			require.Equal(t, way.name, got.Way)
			sum := uint64(0)
			for _, k := range kinds {
				require.NotZero(t, got.Received[k.name], k.name)
				sum += got.Received[k.name]
			}
			require.Len(t, got.Received, len(kinds))
			require.Equal(t, got.Attempted, sum+got.Lost)
			require.GreaterOrEqual(t, got.Seconds, 0.3)
			require.Positive(t, got.CPUSeconds)
			require.InDelta(t, got.CPUSeconds/float64(sum)*1e6, got.SecondsPerMillion, 1e-6)
			if rate > 0 { // no more than there should be, first and last calls aside
				require.LessOrEqual(t, float64(got.Attempted), got.Seconds*float64(rate+len(cpus))+float64(10*len(cpus)))
			}
		}
	}
}

// In one process, one after the other: nothing is left behind, which TestMain checks.
func TestCompare(t *testing.T) {
	kerneltest.Require(t)
	var out bytes.Buffer
	require.NoError(t, compare(t.Context(), config{ways: ways, duration: 50 * time.Millisecond, rate: 2000}, &out))
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, "System calls of another process on all CPUs, 2000 per second, for 50ms with each way.", lines[0])
	require.Regexp(t, `^ +WAY +getppid +getuid +getsid +LOST +ATTEMPTED +PER SECOND +CPU SECONDS +FOR A MILLION +RATIO$`, lines[2])
	for i, way := range ways {
		require.Regexp(t, `^ +`+way.name+`( +\d+){6} +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d\dx$`, lines[3+i])
	}
	require.Regexp(t, ` 1\.00x$`, lines[3])
	require.Len(t, lines, 7)
}

// Without the workload no way goes on, and none leaves anything behind.
func TestWorkloadKilled(t *testing.T) {
	kerneltest.Require(t)
	quiet()
	for _, way := range ways {
		w, err := newWorkload(t.Context(), config{duration: time.Hour, rate: 1000})
		require.NoError(t, err)
		require.NoError(t, w.cmd.Process.Kill())
		_, err = way.read(w)
		require.ErrorContains(t, err, "the workload's process is gone", way.name)
		w.close()
	}
	u := newUnread(t)
	require.NoError(t, u.cmd.Process.Kill())
	u.interrupt()
	<-u.running.Done()
	_, err := u.attempted()
	require.ErrorContains(t, err, "the workload's process is gone")
}

// A way that fails does not wait for room in its rings.
func TestWorkloadClosed(t *testing.T) {
	u := newUnread(t)
	u.close()
	require.Error(t, u.running.Err())
	_, err := u.attempted()
	require.ErrorContains(t, err, "closed while a ring was full")
}

// When the workload ends while rings are full, losses are told of all the same, and all is accounted for.
func TestWorkloadEndsWithLosses(t *testing.T) {
	u := newUnread(t)
	u.interrupt()
	u.buffer.Poll(300)
	var c counts
	for ended := u.running.Done(); !c.complete(); {
		select {
		case data := <-u.events:
			require.NoError(t, c.add(data))
		case n := <-u.lost:
			c.lost += n
		case <-ended:
			ended = nil
			n, err := u.attempted()
			require.NoError(t, err)
			c.attempted = n
		}
	}
	require.Equal(t, c.attempted, c.received()+c.lost)
	require.NotZero(t, c.lost)
}

// unread is a workload whose rings are full.
type unread struct {
	*workload
	running   context.Context
	interrupt func() // as Ctrl-C does
	buffer    *perfchan.PerfBuffer
	events    chan []byte
	lost      chan uint64
}

func newUnread(t *testing.T) unread {
	t.Helper()
	kerneltest.Require(t)
	quiet()
	u := unread{events: make(chan []byte), lost: make(chan uint64)}
	ctx, interrupt := context.WithCancel(t.Context())
	u.interrupt = interrupt
	var err error
	u.workload, err = newWorkload(ctx, config{duration: time.Hour})
	require.NoError(t, err)
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "callbacks", SkipMemlockBump: true})
	require.NoError(t, err)
	t.Cleanup(module.Close)
	require.NoError(t, module.InitGlobalVariable("config", u.filter()))
	require.NoError(t, module.BPFLoadObject())
	u.buffer, err = perfchan.InitPerfBuf(module, "events", u.events, u.lost, 1)
	require.NoError(t, err)
	t.Cleanup(u.buffer.Close)
	require.NoError(t, module.AttachPrograms())
	u.running, err = u.start(module)
	require.NoError(t, err)
	t.Cleanup(u.close)
	for last := error(nil); last != syscall.ENOSPC; {
		_, last, err = u.output()
		require.NoError(t, err)
	}
	return u
}

// TestInterrupt ends the program with Ctrl-C, which goes to all processes of its group, while it runs the first way.
func TestInterrupt(t *testing.T) {
	kerneltest.Require(t)
	cmd, stderr := program("-duration", "1h", "-rate", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	in := bufio.NewReader(out)
	_, err = in.ReadString('\n')
	require.NoError(t, err)
	// A process between fork and exec is no place for a signal: the workload's is past that when it has a group of its own.
	for program := cmd.Process.Pid; !hasChildWithGroup(program); {
		require.NoError(t, syscall.Kill(program, 0))
	}
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Empty(t, stderr.String())
	require.Regexp(t, `channels .*1\.00x\n$`, string(rest))
}

func hasChildWithGroup(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		children, _ := os.ReadFile(file) // its thread may have ended
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				if group, err := syscall.Getpgid(n); err == nil && group == n {
					return true
				}
			}
		}
	}
	return false
}

func TestUsage(t *testing.T) {
	cmd, stderr := program("-h")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, usage, string(out))
	require.Empty(t, stderr.String())

	cmd, _ = program("-version")
	out, err = cmd.Output()
	require.NoError(t, err)
	require.Equal(t, perfbuf.Version().String()+"\n", string(out))

	for want, args := range map[string][]string{
		`unknown argument "surprise"`: {"surprise"},
		"-nonsense":                   {"-nonsense"},
		`-way is channels, dropin, folds or all, not "some"`: {"-way", "some"},
		"must not be negative":                               {"-rate", "-1"},
	} {
		cmd, stderr := program(args...)
		out, err := cmd.Output()
		require.Equal(t, 2, failure(t, err))
		require.Empty(t, out)
		require.Contains(t, stderr.String(), want)
		require.Contains(t, stderr.String(), "\n"+usage)
	}
}

func TestNoPrivilege(t *testing.T) {
	kerneltest.RequireRoot(t)
	for _, way := range ways {
		cmd, stderr := program("-way", way.name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		_, err := cmd.Output()
		require.Equal(t, 1, failure(t, err))
		require.Contains(t, stderr.String(), way.name+": ")
		require.Contains(t, stderr.String(), "uid 65534 may not load BPF programs or open perf events.\nRun it as root")
	}
}

// Where the process has another number than the kernel's, no event would ever come.
func TestPIDNamespace(t *testing.T) {
	kerneltest.RequireRoot(t)
	cmd, stderr := program("-duration", "1h")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	_, err := cmd.Output()
	require.Equal(t, 1, failure(t, err))
	require.Contains(t, stderr.String(), "run this in the host's pid namespace")
}
