package top

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// running is a started program whose output is read line by line.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    io.Closer
	lines  *bufio.Scanner
	stderr *clitest.Output
}

func start(t *testing.T, args ...string) running {
	t.Helper()
	cmd, stderr := clitest.Command(t, append([]string{"top"}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20) // a line of JSON tells of all CPUs
	return running{t, cmd, out, lines, stderr}
}

func (r running) line() string {
	r.t.Helper()
	require.True(r.t, r.lines.Scan(), "the program has ended: %v", r.stderr)
	return r.lines.Text()
}

// frame is a line, and whether it is the last.
func (r running) frame() (o frame, final bool) {
	r.t.Helper()
	line := r.line()
	strict := json.NewDecoder(strings.NewReader(line))
	strict.DisallowUnknownFields()
	if !strings.HasPrefix(line, `{"summary":`) {
		require.NoError(r.t, strict.Decode(&o))
		return o, false
	}
	last := map[string]frame{}
	require.NoError(r.t, strict.Decode(&last))
	return last["summary"], true
}

// summary skips lines up to the last.
func (r running) summary() frame {
	r.t.Helper()
	for {
		if o, final := r.frame(); final {
			return o
		}
	}
}

// interrupt is Ctrl-C.
func (r running) interrupt() {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(syscall.SIGINT))
}

// ended waits for the program, which is not to complain.
func (r running) ended() {
	r.t.Helper()
	require.False(r.t, r.lines.Scan(), r.lines.Text())
	require.NoError(r.t, r.cmd.Wait(), r.stderr)
	require.Empty(r.t, r.stderr.String())
}

func TestTables(t *testing.T) {
	kerneltest.Require(t)
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	p := start(t, "--interval", "20ms") // no terminal
	var table []string
	for !strings.Contains(strings.Join(table, "\n"), "delivered") || strings.Contains(strings.Join(table, "\n"), "delivered               0 ") {
		for table = nil; len(table) == 0 || table[len(table)-1] != ""; {
			table = append(table, p.line())
		}
	}
	require.Contains(t, table[0], "own load, 50,000/s and CPU")
	require.Contains(t, table[0], "unordered")
	require.Contains(t, table[5], "CPU RING")
	require.Len(t, table, 6+len(cpus)+1)
	for i, cpu := range cpus {
		require.Regexp(t, fmt.Sprintf(`^ *%d [█▉▊▋▌▍▎▏·│]+ +\d+%%`, cpu), table[6+i])
		require.NotContains(t, table[6+i], "\x1b")
	}
	p.interrupt()
	last := ""
	for p.lines.Scan() {
		last = p.lines.Text()
	}
	require.Regexp(t, `^[\d,]+ events delivered in .*s, [\d,]+ lost`, last)
	p.ended()
}

func TestJSON(t *testing.T) {
	kerneltest.Require(t)
	for _, m := range modes {
		t.Run(string(m), func(t *testing.T) {
			p := start(t, "--json", "-interval", "20ms", "--mode", string(m), "--load", "20000")
			before := frame{Outputs: &outputs{}}
			for n := 0; n < 5 || before.Delivered < 1000; n++ {
				o, final := p.frame()
				consistent(t, o)
				require.Equal(t, m, o.Mode)
				require.False(t, final)
				require.Greater(t, o.Elapsed, before.Elapsed)
				require.GreaterOrEqual(t, o.Delivered, before.Delivered)
				require.GreaterOrEqual(t, o.Outputs.Attempted, before.Outputs.Attempted)
				require.True(t, m == source.Exact || o.Barrier == nil) // the first may come before there is one
				before = o
			}
			p.interrupt()
			o := p.summary()
			p.ended()
			// All that was output has been delivered, or is known to be lost.
			consistent(t, o)
			require.Equal(t, o.Outputs.Written, o.Delivered)
			require.Zero(t, o.Dropped)
			require.Equal(t, o.Outputs.Full, o.Lost)
			require.Equal(t, o.Elapsed, o.Interval)
			require.InDelta(t, float64(o.Delivered)/o.Elapsed, o.EventsRate, 1)
			if m == source.Exact {
				require.Zero(t, o.Late)
				require.NotEmpty(t, o.Barrier.Provider)
			}
		})
	}
}

// consistent checks that a frame's counts fit each other.
func consistent(t *testing.T, o frame) {
	t.Helper()
	var delivered, lost uint64
	var events, first float64
	for _, r := range o.Rings {
		delivered, lost, events, first = delivered+r.Delivered, lost+r.Lost, events+r.EventsRate, first+r.First
		require.LessOrEqual(t, r.Used, r.Size)
		require.LessOrEqual(t, r.HighWater, r.Size)
	}
	require.Equal(t, delivered, o.Delivered)
	require.Equal(t, lost, o.Lost)
	require.InDelta(t, events, o.EventsRate, 0.01)
	if o.Choices > 0 {
		require.Equal(t, source.Unordered, o.Mode)
		require.InDelta(t, 1, first, 0.01)
	}
	require.Equal(t, o.Outputs.Attempted, o.Outputs.Written+o.Outputs.Full+o.Outputs.NoRing+o.Outputs.Other)
	require.Empty(t, o.Problem)
}

// Somebody else's map: the one that this process has.
func TestOtherMap(t *testing.T) {
	e := kerneltest.Load(t)
	id := clitest.MapID(t, e.MapFD())

	cmd, stderr := clitest.Command(t, "top", "--json", "id", id)
	require.Error(t, cmd.Run())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "--steal", "it may have a reader: we hold it")

	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	p := start(t, "--json", "id", id, "--steal", "-i", "20ms")
	o, _ := p.frame()
	require.Len(t, o.Rings, len(cpus)) // there are rings now
	for _, cpu := range cpus {
		e.Emit(cpu, 100, 64)
	}
	for ; o.Delivered < uint64(100*len(cpus)); o, _ = p.frame() {
		require.Nil(t, o.Outputs)
	}
	p.interrupt()
	o = p.summary()
	p.ended()
	for _, r := range o.Rings {
		require.EqualValues(t, 100, r.Delivered)
	}
	e.Emit(cpus[0], 1, 64)
	require.ErrorIs(t, e.LastError(cpus[0]), syscall.ENOENT, "the rings are out of the map")
}

func TestFails(t *testing.T) {
	kerneltest.RequireRoot(t)
	for args, want := range map[string]string{
		"":           "the load: operation not permitted: uid 65534 lacks CAP_BPF and CAP_PERFMON: run it as root",
		"--steal":    "CAP_SYS_ADMIN",
		"name where": "CAP_SYS_ADMIN",
	} {
		cmd, stderr := clitest.Command(t, append([]string{"top"}, strings.Fields(args)...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		require.Error(t, cmd.Run())
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
		require.Contains(t, stderr.String(), want, args)
	}
	cmd, stderr := clitest.Command(t, "top", "pinned", "/nowhere")
	require.Error(t, cmd.Run())
	require.Contains(t, stderr.String(), "/nowhere")

	// Nobody reads what it prints: it ends, and does not complain.
	p := start(t, "--interval", "10ms")
	p.line()
	require.NoError(t, p.out.Close())
	require.NoError(t, p.cmd.Wait(), p.stderr)
	require.Empty(t, p.stderr.String())
}
