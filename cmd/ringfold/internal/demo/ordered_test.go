package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be the program: see program.
func TestMain(m *testing.M) {
	if os.Getenv("ORDERED_TEST_PROGRAM") == "1" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// program is a command that runs the program in a process of its own.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	stderr = &bytes.Buffer{}
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "ORDERED_TEST_PROGRAM=1")
	cmd.Dir = "/"
	cmd.Stderr = stderr
	return cmd, stderr
}

// line is a line of -json.
type line struct {
	TimeNS   *uint64 `json:"time_ns"`
	CPU      *int    `json:"cpu"`
	Event    string  `json:"event"`
	PID      *uint32 `json:"pid"`
	Comm     *string `json:"comm"`
	Filename string  `json:"filename"`
	ExitCode *int    `json:"exit_code"`
	Lost     uint64  `json:"lost"`
	Late     bool    `json:"late"`

	Summary *summary `json:"summary"`
}

// stream is what -json printed, as far as it goes.
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

// follows runs the program's core on the real kernel, with -json, until it has printed enough.
func follows(t *testing.T, c config, enough func(*stream) bool) *stream {
	t.Helper()
	kerneltest.Require(t)
	return followsOn(t, &probe{sched: c.sched}, c, enough)
}

func followsOn(t *testing.T, src source, c config, enough func(*stream) bool) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &stream{t: t, enough: enough, cancel: cancel, perCPU: map[int]uint64{}}
	if c.ringBytes == 0 {
		c.ringBytes = 1 << 20
	}
	if c.mode == "" {
		c.mode = exact
	}
	require.NoError(t, follow(ctx, c, src, jsonLines{}, s))

	require.Empty(t, s.partial)
	require.NotNil(t, s.summary)
	sum := s.summary
	require.EqualValues(t, len(s.lines), sum.Events)
	require.Equal(t, c.mode, sum.Mode)
	require.Equal(t, []uint64{0, s.late}, []uint64{sum.OutOfOrder, sum.Late})
	require.Equal(t, sum.Events-s.losses, sum.Samples)
	require.Equal(t, sum.Samples+sum.Lost+sum.Unread, sum.Outputs)
	if c.limit == 0 {
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
	d := json.NewDecoder(bytes.NewReader(text))
	require.NoError(t, d.Decode(&l), "%s", text)
	require.Nil(t, s.summary, "after the summary: %s", text)
	if l.Summary != nil {
		s.summary = l.Summary
		require.Regexp(t, `^{"summary":{"events":\d+,"cpus":\d+,"mode":"(exact|slack)","reordered":\d+,"late":\d+,"lost":\d+,"out_of_order":0,`, string(text))
		return
	}
	require.NotNil(t, l.TimeNS, "%s", text)
	require.NotNil(t, l.CPU, "%s", text)
	switch l.Event {
	case "fork", "exec", "exit", "wakeup", "switch":
		require.NotNil(t, l.PID, "%s", text)
		require.NotNil(t, l.Comm, "%s", text)
	case "lost":
		require.Contains(t, string(text), `"lost":`)
	default:
		require.Fail(t, "unknown event", "%s", text)
	}
	require.True(t, l.Late || *l.TimeNS >= s.newest, "back in time from %d: %s", s.newest, text)
	if l.Late {
		s.late++
	}
	if l.Event == "lost" {
		s.losses++
	}
	s.lost += l.Lost
	s.newest = max(s.newest, *l.TimeNS)
	s.perCPU[*l.CPU]++
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
			c.workload = true
			s := follows(t, c, func(s *stream) bool {
				for _, cpu := range cpus {
					if s.perCPU[cpu] < 20 {
						return false
					}
				}
				return true
			})
			// The life of the workload's processes.
			require.True(t, s.has(func(l line) bool { return l.Event == "fork" }))
			require.True(t, s.has(func(l line) bool {
				return l.Event == "exec" && *l.Comm == "true" && strings.HasSuffix(l.Filename, "/true")
			}))
			require.True(t, s.has(func(l line) bool {
				return l.Event == "exit" && *l.Comm == "true" && l.ExitCode != nil && *l.ExitCode == 0
			}))
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
	follows(t, config{workload: true}, func(s *stream) bool {
		if len(s.lines)%100 == 1 { // again now and then, in case that its exit is lost
			var exit *exec.ExitError
			require.ErrorAs(t, exec.Command("/bin/sh", "-c", "exit 42").Run(), &exit)
		}
		l := s.lines[len(s.lines)-1]
		return l.Event == "exit" && *l.Comm == "sh" && l.ExitCode != nil && *l.ExitCode == 42
	})
}

func TestScheduler(t *testing.T) {
	seen := map[string]bool{}
	follows(t, config{sched: true}, func(s *stream) bool {
		seen[s.lines[len(s.lines)-1].Event] = true
		return seen["switch"] && seen["wakeup"] && len(s.lines) > 1000
	})
}

func TestLimit(t *testing.T) {
	s := follows(t, config{workload: true, limit: 10}, never)
	require.Len(t, s.lines, 10)
}

func TestDuration(t *testing.T) {
	follows(t, config{duration: 100 * time.Millisecond}, never)
}

func TestCancelled(t *testing.T) {
	kerneltest.Require(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.NoError(t, follow(ctx, config{ringBytes: 4096}, &probe{}, jsonLines{}, &out))
	require.Contains(t, out.String(), `{"summary":`)
}

func TestText(t *testing.T) {
	kerneltest.Require(t)
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	require.Equal(t, 0, run([]string{"-workload", "-n", "50"}, file, os.Stderr))
	b, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	lines := strings.Split(string(b), "\n")
	require.Regexp(t, `^Following fork, exec and exit on \d+ CPUs?\. `, lines[0])
	require.Regexp(t, `^ +TIME +DELTA  CPU  EVENT `, lines[1])
	for _, l := range lines[2:52] {
		require.Regexp(t, `^ +-?\d+\.\d{6} +[+-][\d.]+[num]?s +\d+  ((fork|exec|exit)     +\d+  \S|LOST )`, l)
	}
	require.Empty(t, lines[52])
	require.Regexp(t, `^50 events from \d+ CPUs? in [\d.]+ s`, lines[53])
}

func TestUsage(t *testing.T) {
	cmd, stderr := program(t, "-h")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, usage, string(out))
	require.Empty(t, stderr.String())

	for want, args := range map[string][]string{
		`unknown argument "surprise"`:            {"surprise"},
		"-nonsense":                              {"-nonsense"},
		"invalid value \"-1\" for flag -n":       {"-n", "-1"},
		"must not be negative":                   {"-slack", "-1s"},
		`-mode is exact or slack, not "guess"`:   {"-mode", "guess"},
		`-mode is exact or slack, not ""`:        {"-mode", ""},
		"-slack is for -mode slack: exact mode ": {"-mode", "exact", "-slack", "1ms"},
		"-seed is for -simulate":                 {"-seed", "3"},
	} {
		cmd, stderr := program(t, args...)
		out, err := cmd.Output()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.Empty(t, out)
		require.Contains(t, stderr.String(), want)
		require.Contains(t, stderr.String(), "\n"+usage)
	}
}

// -version tells what the program contains, and needs nothing for that.
func TestPrintVersion(t *testing.T) {
	cmd, stderr := program(t, "-version")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, perfbuf.Version().String()+"\n", string(out))
	require.Empty(t, stderr.String())
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args string
		want config
	}{
		{"", config{mode: exact, ringBytes: 512 << 10}},
		{"-mode exact -sched", config{mode: exact, sched: true, ringBytes: 4 << 20}},
		{"-mode slack", config{mode: slack, slack: time.Millisecond, ringBytes: 512 << 10}},
		{"-slack 0", config{mode: slack, ringBytes: 512 << 10}},
		{"-slack 2ms -mode slack", config{mode: slack, slack: 2 * time.Millisecond, ringBytes: 512 << 10}},
		{"-simulate -workload -sched", config{mode: exact, simulate: true, sched: true, ringBytes: 4 << 10}},
		{"-simulate -seed 7 -ring-bytes 8192", config{mode: exact, simulate: true, seed: 7, ringBytes: 8192}},
	} {
		got, err := parse(strings.Fields(c.args))
		require.NoError(t, err)
		if c.want.seed == 0 {
			c.want.seed = 1
		}
		if c.want.mode == exact {
			got.slack = 0 // not used
		}
		require.Equal(t, c.want, got, c.args)
	}
}

func TestNoPrivilege(t *testing.T) {
	kerneltest.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can give privilege up")
	}
	cmd, stderr := program(t, "-n", "1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Empty(t, out)
	require.Contains(t, stderr.String(), "uid 65534 lacks CAP_BPF and CAP_PERFMON.\nRun it as root")
	require.Contains(t, stderr.String(), "ordered -simulate.\n")
	require.Equal(t, 3, strings.Count(stderr.String(), "\n"), stderr.String())
}

func TestClosedPipe(t *testing.T) {
	kerneltest.Require(t)
	for _, args := range [][]string{{"-workload"}, {"-workload", "-json"}, {"-sched"}} {
		cmd, stderr := program(t, args...)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.NoError(t, cmd.Wait())
		require.Empty(t, stderr.String())
	}
}

// TestInterrupt ends the program with Ctrl-C while it prints.
func TestInterrupt(t *testing.T) {
	kerneltest.Require(t)
	cmd, stderr := program(t, "-workload")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	in := bufio.NewReader(out)
	for range 10 {
		_, err := in.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.Empty(t, stderr.String())
	require.Contains(t, string(rest), " events from ")
}

// TestInterruptTwice does so while nobody reads what it prints. Without the second Ctrl-C it would wait for ever.
func TestInterruptTwice(t *testing.T) {
	kerneltest.Require(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	require.NoError(t, err)
	cmd, _ := program(t, "-sched")
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	_, err = r.Read(make([]byte, 1)) // until it prints; it soon has more than fits in
	require.NoError(t, err)

	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	for {
		// Again and again, as two that come at once are one.
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-gone:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
