package demo

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	clitest.Program(Command)
	os.Exit(m.Run())
}

// program is the command in a process of its own.
func program(t *testing.T, args ...string) (*exec.Cmd, *clitest.Output) {
	cmd, stderr := clitest.Command(t, append([]string{"demo"}, args...)...)
	cmd.Dir = "/"
	return cmd, stderr
}

// stream is what --json has printed.
type stream struct {
	lines   []event
	summary *summary
	perCPU  map[int]uint64
	losses  int
}

// follows runs the program's core on a source, by default of the real kernel, with --json, and checks all that it prints.
func follows(t *testing.T, src source, c config) *stream {
	t.Helper()
	if src == nil {
		kerneltest.Require(t)
		programs, err := lifecycle.Load()
		require.NoError(t, err)
		src = programs
	}
	if c.ringSize == 0 {
		c.ringSize = 1 << 20
	}
	r, err := src.Open(perfbuf.Options{RingBytes: int(c.ringSize)})
	require.NoError(t, err)
	var out bytes.Buffer
	c.Format = cli.JSON
	_, err = follow(t.Context(), c, src, r, &out)
	require.NoError(t, err)
	_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	require.ErrorIs(t, err, unix.ECHILD, "the workload left processes behind")

	s := &stream{perCPU: map[int]uint64{}}
	var lost, late, newest uint64
	for text := range bytes.Lines(out.Bytes()) {
		var l struct {
			event
			Summary *summary `json:"summary"`
		}
		require.Nil(t, s.summary, "after the summary: %s", text)
		require.NoError(t, json.Unmarshal(text, &l), "%s", text)
		if s.summary = l.Summary; s.summary != nil {
			require.Regexp(t, `^{"summary":{"events":\d+,"cpus":\d+,"mode":"(exact|slack)","reordered":\d+,"late":\d+,"lost":\d+,"out_of_order":0,`, string(text))
			continue
		}
		require.Regexp(t, `^{"time_ns":\d+,"cpu":\d+,"event":"((fork|exec|exit)","pid":\d+,.*"comm":"|lost","lost":[1-9])`, string(text))
		require.True(t, l.Late || l.TimeNS >= newest, "back in time from %d: %s", newest, text)
		if l.Late {
			late++
		}
		if l.Event == "lost" {
			s.losses++
		}
		lost, newest = lost+l.Lost, max(newest, l.TimeNS)
		s.perCPU[l.CPU]++
		s.lines = append(s.lines, l.event)
	}

	sum := s.summary
	require.NotNil(t, sum)
	require.Equal(t, c.mode, sum.Mode)
	require.Equal(t, []uint64{uint64(len(s.lines)), 0, late}, []uint64{sum.Events, sum.OutOfOrder, sum.Late})
	require.Equal(t, sum.Events-uint64(s.losses), sum.Samples)
	require.Equal(t, sum.Samples+sum.Lost+sum.Unread, sum.Outputs)
	if c.count == 0 {
		require.Equal(t, []uint64{0, lost}, []uint64{sum.Unread, sum.Lost})
	}
	require.LessOrEqual(t, sum.LatencyP50NS, sum.LatencyP99NS)
	if c.mode == exact {
		require.Zero(t, sum.Late)
		require.Zero(t, sum.SlackNS)
		require.NotEmpty(t, sum.Barriers.Provider)
		require.Zero(t, sum.Barriers.Failed)
		require.LessOrEqual(t, sum.Barriers.P50NS, sum.Barriers.MaxNS)
	} else {
		require.EqualValues(t, c.slack, sum.SlackNS)
		require.Nil(t, sum.Barriers)
	}
	require.Len(t, sum.PerCPU, sum.CPUs)
	for _, c := range sum.PerCPU {
		require.Equal(t, s.perCPU[c.CPU], c.Events, "CPU %d", c.CPU)
	}
	return s
}

// has reports whether a process of a name did something, with that exit code if it has ended.
func (s *stream) has(what, comm string, code int) bool {
	for _, l := range s.lines {
		if l.Event == what && l.Comm == comm && (what != "exec" || strings.HasSuffix(l.Filename, "/"+comm)) && (what != "exit" || l.ExitCode != nil && *l.ExitCode == code) {
			return true
		}
	}
	return false
}

// usableCPUs are those that the workload can run on.
func usableCPUs(t *testing.T) (cpus []int) {
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func TestStream(t *testing.T) {
	for _, c := range []config{{mode: exact}, {mode: slack, slack: time.Millisecond}, {mode: slack}} {
		t.Run(c.order().String(), func(t *testing.T) {
			for enough := false; !enough; c.duration *= 2 { // it is longer on a slow machine
				c.duration = max(c.duration, 500*time.Millisecond)
				s := follows(t, nil, c)
				// The life of the workload's processes.
				enough = s.has("exec", "true", 0) && s.has("exit", "true", 0)
				for _, cpu := range usableCPUs(t) {
					enough = enough && s.perCPU[cpu] > 20
				}
				if c.mode == exact && enough {
					require.NotZero(t, s.summary.Barriers.Count)
					require.NotZero(t, s.summary.Barriers.MaxNS)
				}
				// The times are by the clock that we read, or the latency would be hours.
				require.NotZero(t, s.summary.LatencyP50NS)
				require.Less(t, s.summary.LatencyP50NS, uint64(time.Hour))
			}
		})
	}
}

func TestLimit(t *testing.T) {
	require.Len(t, follows(t, nil, config{mode: exact, count: 10}).lines, 10)
}
