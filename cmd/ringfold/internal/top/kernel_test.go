package top

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	clitest.Program(Command)
	os.Exit(m.Run())
}

func TestMisuse(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
		"what":                 "name a map by id N",
		"--mode fuzzy":         "none of exact, slack, unordered",
		"--interval 1ms":       "10ms at least",
		"--load -1":            "must not be negative",
		"id 0":                 "an id is a number from 1 on",
		"name x --load 5":      "--load is for a map of its own",
		"--steal --load 5":     "--load is for a map of its own",
		"--unheard":            "unknown flag",
		"--timeout -5s":        "must not be negative",
		"name x -- true":       "see ringfold stat",
		"a.data --ring-size x": "is not a size",
	})
}

// nothing is the last line of a command that has delivered nothing. Earlier ones may say so of their
// own time.
var nothing = regexp.MustCompile(`(?:^|\n)(?:0 events delivered|\{"summary":.*"delivered":0,).*\n$`)

// loaded runs the command with its load, until some events were delivered.
func loaded(t *testing.T, args ...string) (out string) {
	t.Helper()
	kerneltest.Require(t)
	for timeout := 300 * time.Millisecond; out == "" || nothing.MatchString(out); timeout *= 2 {
		var status int
		var errs string
		status, out, errs = clitest.Run(t, Command, append(args, "--interval", "20ms", "--timeout", timeout.String())...)
		require.Zero(t, status, errs)
		require.Empty(t, errs)
	}
	return out
}

func TestTables(t *testing.T) {
	out := loaded(t) // no terminal
	cpus := kerneltest.OnlineCPUs(t)
	tables := strings.Split(out, "\n\n")
	require.Regexp(t, `^[\d,]+ events delivered in .*s, [\d,]+ lost\n$`, tables[len(tables)-1])
	for _, text := range tables[:len(tables)-1] {
		table := strings.Split(text, "\n")
		require.Regexp(t, `own load, 50,000/s and CPU +unordered`, table[0])
		require.Contains(t, table[5], "CPU RING")
		require.Len(t, table, 6+len(cpus))
		for i, cpu := range cpus {
			require.Regexp(t, fmt.Sprintf(`^ *%d [█▉▊▋▌▍▎▏·│]+ +\d+%%`, cpu), table[6+i])
		}
	}
	require.NotContains(t, out, "\x1b")
}

// frames parses lines of --json, of which the last is the summary.
func frames(t *testing.T, out string) (all []frame, summary frame) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines {
		var l struct {
			frame
			Summary *frame `json:"summary"`
		}
		strict := json.NewDecoder(strings.NewReader(line))
		strict.DisallowUnknownFields()
		require.NoError(t, strict.Decode(&l))
		if require.Equal(t, i == len(lines)-1, l.Summary != nil); l.Summary != nil {
			return all, *l.Summary
		}
		all = append(all, l.frame)
	}
	return all, summary
}

func TestJSON(t *testing.T) {
	for _, m := range modes {
		t.Run(string(m), func(t *testing.T) {
			all, last := frames(t, loaded(t, "--json", "--mode", string(m), "--load", "20000"))
			before := frame{Outputs: &outputs{}}
			for _, f := range append(all, last) {
				consistent(t, f)
				require.Equal(t, m, f.Mode)
				require.Greater(t, f.Elapsed, before.Elapsed)
				require.GreaterOrEqual(t, f.Delivered, before.Delivered)
				require.GreaterOrEqual(t, f.Outputs.Attempted, before.Outputs.Attempted)
				require.True(t, m == source.Exact || f.Barrier == nil) // the first may come before there is one
				before = f
			}
			// All that was output has been delivered, or is known to be lost.
			require.Equal(t, []uint64{last.Outputs.Written, 0, last.Outputs.Full}, []uint64{last.Delivered, last.Dropped, last.Lost})
			require.Equal(t, last.Elapsed, last.Interval)
			require.InDelta(t, float64(last.Delivered)/last.Elapsed, last.EventsRate, 1)
			if m == source.Exact {
				require.Zero(t, last.Late)
				require.NotEmpty(t, last.Barrier.Provider)
			}
		})
	}
}

// consistent checks that a frame's counts fit each other.
func consistent(t *testing.T, f frame) {
	t.Helper()
	var delivered, lost uint64
	var events, first float64
	for _, r := range f.Rings {
		delivered, lost, events, first = delivered+r.Delivered, lost+r.Lost, events+r.EventsRate, first+r.First
		require.LessOrEqual(t, r.Used, r.Size)
		require.LessOrEqual(t, r.HighWater, r.Size)
	}
	require.Equal(t, []uint64{delivered, lost}, []uint64{f.Delivered, f.Lost})
	require.InDelta(t, events, f.EventsRate, 0.01)
	if f.Choices > 0 {
		require.Equal(t, source.Unordered, f.Mode)
		require.InDelta(t, 1, first, 0.01)
	}
	require.Equal(t, f.Outputs.Attempted, f.Outputs.Written+f.Outputs.Full+f.Outputs.NoRing+f.Outputs.Other)
	require.Empty(t, f.Problem)
}

// The map of another: the one that this process has.
func TestOtherMap(t *testing.T) {
	e := kerneltest.Load(t)
	id := clitest.MapID(t, e.MapFD())
	cmd, stderr := clitest.Command(t, "top", "--json", "id", id)
	require.Error(t, cmd.Run())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "--steal", "it may have a reader: we hold it")

	cpus := kerneltest.OnlineCPUs(t)
	out, notes, ended := clitest.NewOutput(t), clitest.NewOutput(t), make(chan int, 1)
	go func() { ended <- clitest.RunTo(out, notes, Command, "--json", "id", id, "--steal", "-i", "20ms") }()
	out.Wait(t, `"rings":`) // there are some now
	for _, cpu := range cpus {
		e.Emit(cpu, 100, 64)
	}
	out.Wait(t, fmt.Sprintf(`"delivered":%d,"dropped":0,"lost":0,"shed":0,"corrupt":`, 100*len(cpus)))
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGINT))
	require.Zero(t, <-ended, notes)
	_, last := frames(t, out.String())
	require.Nil(t, last.Outputs)
	require.Len(t, last.Rings, len(cpus))
	for _, r := range last.Rings {
		require.EqualValues(t, 100, r.Delivered)
	}
	e.Emit(cpus[0], 1, 64)
	require.ErrorIs(t, e.LastError(cpus[0]), syscall.ENOENT, "the rings are out of the map")
}

func TestFails(t *testing.T) {
	kerneltest.RequireRoot(t)
	for args, want := range map[string]string{
		"":                "the load: operation not permitted: uid 65534 lacks CAP_BPF and CAP_PERFMON: run it as root",
		"--steal":         "CAP_SYS_ADMIN",
		"name where":      "CAP_SYS_ADMIN",
		"pinned /nowhere": "/nowhere",
	} {
		cmd, stderr := clitest.Command(t, append([]string{"top"}, strings.Fields(args)...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.Error(t, cmd.Run())
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
		require.Contains(t, stderr.String(), want, args)
	}

	// When nothing reads its output, it ends, and does not complain.
	cmd, stderr := clitest.Command(t, "top", "--interval", "10ms")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, cmd.Wait(), stderr)
	require.Empty(t, stderr.String())
}
