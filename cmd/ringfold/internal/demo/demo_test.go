package demo

import (
	"bytes"
	"context"
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

// line is a line of --json.
type line struct {
	event
	Summary *summary `json:"summary"`
}

// stream is what --json printed, as far as it goes.
type stream struct {
	t       *testing.T
	enough  func(*stream) bool // asked after each line
	cancel  context.CancelFunc // called when it says yes
	partial []byte

	lines   []line
	summary *summary
	perCPU  map[int]uint64
	newest  uint64
	late    uint64
	lost    uint64
	losses  uint64
}

// follows runs the program's core on the real kernel, with --json, until it has printed enough.
func follows(t *testing.T, c config, enough func(*stream) bool) *stream {
	t.Helper()
	kerneltest.Require(t)
	programs, err := lifecycle.Load()
	require.NoError(t, err)
	return followsOn(t, programs, c, enough)
}

func followsOn(t *testing.T, src source, c config, enough func(*stream) bool) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &stream{t: t, enough: enough, cancel: cancel, perCPU: map[int]uint64{}}
	if c.ringSize == 0 {
		c.ringSize = 1 << 20
	}
	if c.mode == "" {
		c.mode = exact
	}
	r, err := src.Open(perfbuf.Options{RingBytes: int(c.ringSize)})
	require.NoError(t, err)
	c.Format = cli.JSON
	_, err = follow(ctx, c, src, r, s)
	require.NoError(t, err)

	require.Empty(t, s.partial)
	require.NotNil(t, s.summary)
	sum := s.summary
	require.EqualValues(t, len(s.lines), sum.Events)
	require.Equal(t, c.mode, sum.Mode)
	require.Equal(t, []uint64{0, s.late}, []uint64{sum.OutOfOrder, sum.Late})
	require.Equal(t, sum.Events-s.losses, sum.Samples)
	require.Equal(t, sum.Samples+sum.Lost+sum.Unread, sum.Outputs)
	if c.count == 0 {
		require.Zero(t, sum.Unread)
		require.Equal(t, s.lost, sum.Lost)
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

// Write takes lines and checks each.
func (s *stream) Write(b []byte) (int, error) {
	s.partial = append(s.partial, b...)
	for {
		text, rest, ok := bytes.Cut(s.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		s.add(text)
		s.partial = rest
	}
}

func (s *stream) add(text []byte) {
	t := s.t
	var l line
	require.NoError(t, json.Unmarshal(text, &l), "%s", text)
	require.Nil(t, s.summary, "after the summary: %s", text)
	if l.Summary != nil {
		s.summary = l.Summary
		require.Regexp(t, `^{"summary":{"events":\d+,"cpus":\d+,"mode":"(exact|slack)","reordered":\d+,"late":\d+,"lost":\d+,"out_of_order":0,`, string(text))
		return
	}
	require.Contains(t, string(text), `"time_ns":`)
	require.Contains(t, string(text), `"cpu":`)
	switch l.Event {
	case "fork", "exec", "exit":
		require.NotNil(t, l.Process, "%s", text)
	case "lost":
		require.NotZero(t, l.Lost, "%s", text)
	default:
		require.Fail(t, "unknown event", "%s", text)
	}
	require.True(t, l.Late || l.TimeNS >= s.newest, "back in time from %d: %s", s.newest, text)
	if l.Late {
		s.late++
	}
	if l.Event == "lost" {
		s.losses++
	}
	s.lost += l.Lost
	s.newest = max(s.newest, l.TimeNS)
	s.perCPU[l.CPU]++
	s.lines = append(s.lines, l)
	if s.enough(s) {
		s.cancel()
	}
}

func (s *stream) has(match func(line) bool) bool {
	for _, l := range s.lines {
		if match(l) {
			return true
		}
	}
	return false
}

func never(*stream) bool { return false }

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
	cpus := usableCPUs(t)
	for _, c := range []config{{mode: exact}, {mode: slack, slack: time.Millisecond}, {mode: slack}} {
		t.Run(c.order().String(), func(t *testing.T) {
			s := follows(t, c, func(s *stream) bool {
				for _, cpu := range cpus {
					if s.perCPU[cpu] < 20 {
						return false
					}
				}
				// The life of the workload's processes.
				return s.has(func(l line) bool { return l.Event == "fork" }) &&
					s.has(func(l line) bool {
						return l.Event == "exec" && l.Comm == "true" && strings.HasSuffix(l.Filename, "/true")
					}) &&
					s.has(func(l line) bool {
						return l.Event == "exit" && l.Comm == "true" && l.ExitCode != nil && *l.ExitCode == 0
					})
			})
			_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			require.ErrorIs(t, err, unix.ECHILD, "the workload left processes behind")
			if c.mode == exact {
				require.NotZero(t, s.summary.Barriers.Count)
				require.NotZero(t, s.summary.Barriers.MaxNS)
			}
			// The times are by the clock that we read, or the latency would be hours.
			require.NotZero(t, s.summary.LatencyP50NS)
			require.Less(t, s.summary.LatencyP50NS, uint64(time.Hour))
		})
	}
}

func TestExitStatus(t *testing.T) {
	follows(t, config{}, func(s *stream) bool {
		if len(s.lines)%100 == 1 { // again now and then, in case that its exit is lost
			var exit *exec.ExitError
			require.ErrorAs(t, exec.Command("/bin/sh", "-c", "exit 42").Run(), &exit)
		}
		l := s.lines[len(s.lines)-1]
		return l.Event == "exit" && l.Comm == "sh" && l.ExitCode != nil && *l.ExitCode == 42
	})
}

func TestLimit(t *testing.T) {
	s := follows(t, config{count: 10}, never)
	require.Len(t, s.lines, 10)
}

func TestDuration(t *testing.T) {
	follows(t, config{duration: 100 * time.Millisecond}, never)
}
