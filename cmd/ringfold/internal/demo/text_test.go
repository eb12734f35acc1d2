package demo

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// sample is an event of a program, with names in it.
func sample(e lifecycle.Event, comm, file string) event {
	copy(e.CommBytes[:], comm)
	copy(e.FileBytes[:], file)
	return event{Event: e.Kind.String(), Process: newProcess(&e)}
}

// Each event as a line of text, and as an object.
func TestLines(t *testing.T) {
	corrupt := (&perfbuf.CorruptError{CPU: 1, Offset: 8, Skipped: 16, Reason: "no reason"}).Error()
	var out bytes.Buffer
	p := newText(&out, nil, config{all: true})
	p.header(2)
	require.Equal(t, `Starting processes on 2 CPUs, and following their life. Ctrl-C ends it.
       TIME    DELTA  CPU  EVENT       PID  COMM             DETAILS
`, out.String())
	for _, c := range []struct {
		time       uint64
		cpu        int
		late       bool
		event      event
		text, json string
	}{
		{7e9, 12, false, sample(lifecycle.Event{Kind: lifecycle.Fork, PID: 7, TID: 7, ChildPID: 4194304, ChildTID: 4194304}, "sh", ""),
			`   0.000000      +0s   12  fork          7  sh               child 4194304`, `{"time_ns":7000000000,"cpu":12,"event":"fork","pid":7,"comm":"sh","child_pid":4194304}`},
		{7e9 + 1234567, 0, false, sample(lifecycle.Event{Kind: lifecycle.Exec, PID: 4194304, TID: 4194304}, "fifteen letters", "/bin/true"),
			`   0.001235  +1.23ms    0  exec    4194304  fifteen letters  /bin/true`, `{"time_ns":7001234567,"cpu":0,"event":"exec","pid":4194304,"comm":"fifteen letters","filename":"/bin/true"}`},
		{7e9 + 1e6, 0, true, sample(lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 8, Code: 3 << 8}, "é\x1b[2J\xff", ""),
			`   0.001000   -235µs    0  exit          8  é\u001b[2J\xff   LATE by 235µs, status 3`, `{"time_ns":7001000000,"cpu":0,"event":"exit","pid":8,"comm":"é\u001b[2J\ufffd","exit_code":3,"late":true}`},
		{8e9, 0, false, sample(lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 9}, "go", ""),
			`   1.000000   +999ms    0  exit          8  go               thread 9`, `{"time_ns":8000000000,"cpu":0,"event":"exit","pid":8,"tid":9,"comm":"go","exit_code":0}`},
		{8e9, 0, false, sample(lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 9, Code: 11 | 128}, "go", ""),
			`   1.000000      +0s    0  exit          8  go               thread 9: killed by SIGSEGV, core dumped`, `{"time_ns":8000000000,"cpu":0,"event":"exit","pid":8,"tid":9,"comm":"go","signal":"SIGSEGV"}`},
		{8e9, 0, false, sample(lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 8, Code: 9}, "go", ""),
			`   1.000000      +0s    0  exit          8  go               killed by SIGKILL`, `{"time_ns":8000000000,"cpu":0,"event":"exit","pid":8,"comm":"go","signal":"SIGKILL"}`},
		{8e9, 0, false, sample(lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 8, Code: 40}, "go", ""),
			`   1.000000      +0s    0  exit          8  go               killed by signal 40`, `{"time_ns":8000000000,"cpu":0,"event":"exit","pid":8,"comm":"go","signal":"signal 40"}`},
		{8e9, 0, false, sample(lifecycle.Event{Kind: lifecycle.Fork, PID: 8, TID: 9, ChildPID: 8, ChildTID: 10}, "go", ""),
			`   1.000000      +0s    0  fork          8  go               thread 9: new thread 10`, `{"time_ns":8000000000,"cpu":0,"event":"fork","pid":8,"tid":9,"comm":"go","child_pid":8,"child_tid":10}`},
		{9e9, 12, false, event{Event: "lost", Lost: 3, AfterNS: 8e9},
			`   2.000000      +1s   12  LOST    3 events on CPU 12 between 1.000000 and 2.000000`, `{"time_ns":9000000000,"cpu":12,"event":"lost","lost":3,"after_ns":8000000000}`},
		{9e9, 0, false, event{Event: "lost", Lost: 1},
			`   2.000000      +0s    0  LOST    1 event on CPU 0 before 2.000000`, `{"time_ns":9000000000,"cpu":0,"event":"lost","lost":1}`},
		{9e9, 0, false, event{Event: "corrupt", Error: corrupt}, `   2.000000      +0s    0  CORRUPT ` + corrupt, `{"time_ns":9000000000,"cpu":0,"event":"corrupt","error":"` + corrupt + `"}`},
	} {
		c.event.TimeNS, c.event.CPU, c.event.Late = c.time, c.cpu, c.late
		out.Reset()
		p.event(&c.event)
		newJSON(&out).event(&c.event)
		text, json, _ := strings.Cut(out.String(), "\n")
		require.Equal(t, c.text, text)
		require.Equal(t, c.json+"\n", json)
	}
}

func TestTextSummary(t *testing.T) {
	var out bytes.Buffer
	p := newText(&out, nil, config{ringSize: 4096})
	s := newSummary(config{mode: exact}, []int{0, 1})
	said := func() string {
		out.Reset()
		p.summary(s)
		return out.String()
	}
	s.Events, s.PerCPU[0].Events, s.PerCPU[1].Events = 10, 7, 3
	s.Overtaken, s.RingUse, s.elapsed = 4, 1.25, 5*time.Second
	s.Samples, s.Unread, s.Outputs = 10, 2, 12
	s.LatencyP50NS, s.LatencyP99NS = 1_500_000, 3_000_000
	s.Barriers = &barriers{Provider: "map-in-map", Count: 3, P50NS: 1000, P99NS: 2000, MaxNS: 3000}
	require.Equal(t, `
Read ring by ring, 4 of 10 events (40 %) come out of order.

The stream begins like this (--all prints all of it):
       TIME    DELTA  CPU  EVENT       PID  COMM             DETAILS

10 events from 2 CPUs in 5.0 s: 7 on CPU 0, 3 on CPU 1.
Mode exact: all in order, none late.
Barriers: 3 (map-in-map), each in 1µs (p50), 2µs (p99), 3µs (max).
From event to delivery: 1.5ms (p50), 3ms (p99).
None lost: the fullest ring was 1.2 % full at most.
12 outputs = 10 read + 0 lost + 2 left unread at the end.
`, said())

	s.Barriers = &barriers{Provider: "membarrier", Failed: 1}
	s.Late, s.LatenessNS = 2, 12_300_000
	require.Contains(t, said(), `
LATE: 2 events came after a later one, by 12.3ms at most. Exact mode rules that out.
Barriers: 0 (membarrier); 1 more failed.
`)

	p.cfg.all = true
	s.Mode, s.Barriers, s.SlackNS = slack, nil, 1e6
	s.Overtaken, s.Lost, s.Corrupt, s.SpilledBytes = 0, 8, 1, 4096
	s.Samples, s.Unread, s.Outputs = 9, 0, 17
	require.Equal(t, `
Read ring by ring, all 10 events would have come in order too, this time.

10 events from 2 CPUs in 5.0 s: 7 on CPU 0, 3 on CPU 1.
Mode slack: in order, but for 2 events that came too late (marked LATE), by 12.3ms at most.
A longer --slack makes that rarer (it was 1ms); --mode exact waits for proof.
From event to delivery: 1.5ms (p50), 3ms (p99).
LOST: 8 events found their ring full. A larger --ring-size holds more (it was 4KiB).
4,096 bytes of waiting events were copied out of rings that filled up.
Corrupt memory was skipped: 1 time.
17 outputs = 9 read + 8 lost.
`, said())

	s.Late = 0
	require.Contains(t, said(), "\nMode slack: all in order, none late. 1ms happened to be enough.\n")
	s.OutOfOrder = 1
	require.Contains(t, said(), "OUT OF ORDER: 1 ")
}

// Colours and cuts are for terminals alone. A terminal of any width is enough, and no line of the picture is wider.
func TestTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	e := sample(lifecycle.Event{Kind: lifecycle.Exec, PID: 8, TID: 8}, "true", "/a/very/long/way/to/go/to/get/to/true")
	_, tty := clitest.Terminal(t, 80)
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	for _, c := range []struct {
		noColour string
		to       *os.File
		colours  bool
		end      string
	}{{"", tty, true, "…"}, {"1", tty, false, "…"}, {"", file, false, "/to/true"}} {
		t.Setenv("NO_COLOR", c.noColour)
		var out bytes.Buffer
		p := newText(&out, cli.NewWriter(c.to), config{all: true})
		p.event(&e)
		require.Contains(t, out.String(), c.end)
		require.Equal(t, c.colours, strings.Contains(out.String(), p.paint(cpuColour(0), "  0")) && p.paint("1", "x") != "x")
		if c.to == tty && !c.colours {
			require.Len(t, []rune(out.String()), 80+len("\n"))
		}
	}

	t.Setenv("NO_COLOR", "1")
	s := newSummary(config{mode: exact}, []int{0, 1})
	for i := range uint64(20) {
		e := forkAt(1000-i*10, int(i%2), 4194304, 4194303)
		e.Comm = "fifteen letters"
		s.add(&e, 2000)
	}
	s.endRound()
	require.Len(t, s.byRing.best.rows, rows)
	for _, width := range []uint16{1, 3, 5, 20, 60, 80} {
		_, tty := clitest.Terminal(t, width)
		var out bytes.Buffer
		newText(&out, cli.NewWriter(tty), config{}).summary(s)
		_, table, _ := strings.Cut(out.String(), "\n\n")
		table, _, _ = strings.Cut(table, "\n\n")
		for _, l := range strings.Split(table, "\n") {
			require.LessOrEqual(t, len([]rune(l)), max(4, int(width)), "%q", l)
		}
	}
}
