package demo

import (
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

func TestTextLines(t *testing.T) {
	p := newText(nil, config{all: true})
	var b []byte
	b = p.header(b, []int{0, 12})
	for _, e := range []*event{
		sample(event{time: 7e9, cpu: 12, Event: lifecycle.Event{Kind: lifecycle.Fork, PID: 7, TID: 7, ChildPID: 4194304, ChildTID: 4194304}}, "sh", ""),
		sample(event{time: 7e9 + 1234567, Event: lifecycle.Event{Kind: lifecycle.Exec, PID: 4194304, TID: 4194304}}, "fifteen letters", "/bin/true"),
		sample(event{time: 7e9 + 1e6, late: true, Event: lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 8, Code: 3 << 8}}, "é\x1b[2J\xff", ""),
		sample(event{time: 8e9, Event: lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 9}}, "go", ""),
		sample(event{time: 8e9, Event: lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 9, Code: 11 | 128}}, "go", ""),
		sample(event{time: 8e9, Event: lifecycle.Event{Kind: lifecycle.Fork, PID: 8, TID: 9, ChildPID: 8, ChildTID: 10}}, "go", ""),
		{time: 9e9, cpu: 12, lost: 3, after: 8e9, kind: perfbuf.KindLost},
		{time: 9e9, lost: 1, kind: perfbuf.KindLost},
		{time: 9e9, err: &perfbuf.CorruptError{CPU: 1}, kind: perfbuf.KindCorrupt},
	} {
		b = p.event(b, e)
	}
	require.Equal(t, `Starting processes on 2 CPUs, and following their life. Ctrl-C ends it.
       TIME    DELTA  CPU  EVENT       PID  COMM             DETAILS
   0.000000     +0ns   12  fork          7  sh               child 4194304
   0.001234  +1.23ms    0  exec    4194304  fifteen letters  /bin/true
   0.001000   -235us    0  exit          8  é\u001b[2J\xff   LATE by 235us, status 3
   1.000000   +999ms    0  exit          8  go               thread 9
   1.000000     +0ns    0  exit          8  go               thread 9: killed by SIGSEGV, core dumped
   1.000000     +0ns    0  fork          8  go               thread 9: new thread 10
   2.000000   +1.00s   12  LOST    3 events on CPU 12 between 1.000000 and 2.000000
   2.000000     +0ns    0  LOST    1 event on CPU 0 before 2.000000
   2.000000     +0ns    0  CORRUPT perfbuf: corrupt ring of CPU 1 at offset 0: ; skipped 0 bytes (outputs of 65509 bytes or more do this: output less at once)
`, string(b))
}

func TestTextSummary(t *testing.T) {
	p := newText(nil, config{ringSize: 4096})
	s := newSummary(config{mode: exact}, []int{0, 1})
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
Barriers: 3 (map-in-map), each in 1.00us (p50), 2.00us (p99), 3.00us (max).
From event to delivery: 1.50ms (p50), 3.00ms (p99).
None lost: the fullest ring was 1.2 % full at most.
12 outputs = 10 read + 0 lost + 2 left unread at the end.
`, string(p.summary(nil, s)))

	s.Barriers = &barriers{Provider: "membarrier", Failed: 1}
	s.Late, s.LatenessNS = 2, 12_300_000
	require.Contains(t, string(p.summary(nil, s)), `
LATE: 2 events came after a later one, by 12.3ms at most. Exact mode rules that out.
Barriers: 0 (membarrier); 1 more failed.
`)

	p.all = true
	s.Mode, s.Barriers, s.SlackNS = slack, nil, 1e6
	s.Overtaken, s.Lost, s.Corrupt, s.SpilledBytes = 0, 8, 1, 4096
	s.Samples, s.Unread, s.Outputs = 9, 0, 17
	require.Equal(t, `
Read ring by ring, all 10 events would have come in order too, this time.

10 events from 2 CPUs in 5.0 s: 7 on CPU 0, 3 on CPU 1.
Mode slack: in order, but for 2 events that came too late (marked LATE), by 12.3ms at most.
A longer --slack makes that rarer (it was 1ms); --mode exact waits for proof.
From event to delivery: 1.50ms (p50), 3.00ms (p99).
LOST: 8 events found their ring full. A larger --ring-size holds more (it was 4KiB).
4,096 bytes of waiting events were copied out of rings that filled up.
Corrupt memory was skipped: 1 time.
17 outputs = 9 read + 8 lost.
`, string(p.summary(nil, s)))

	s.Late = 0
	require.Contains(t, string(p.summary(nil, s)), "\nMode slack: all in order, none late. 1ms happened to be enough.\n")
	s.OutOfOrder = 1
	require.Contains(t, string(p.summary(nil, s)), "OUT OF ORDER: 1 ")
}

// TestTerminal prints to a pseudo-terminal.
func TestTerminal(t *testing.T) {
	_, tty := clitest.Terminal(t, 80)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	e := sample(event{cpu: 1, Event: lifecycle.Event{Kind: lifecycle.Exec, PID: 8, TID: 8}}, "true", "/a/very/long/way/to/go/to/get/to/true")

	p := newText(cli.NewWriter(tty), config{all: true})
	p.header(nil, []int{0, 1})
	line := string(p.event(nil, e))
	require.Contains(t, line, p.paint(dim, ".")+" "+p.paint(cpuColour(1), "1"))
	require.NotEqual(t, "1", p.paint(cpuColour(1), "1"))
	require.True(t, strings.HasSuffix(line, "…\n"), "%q", line)

	t.Setenv("NO_COLOR", "1")
	p = newText(cli.NewWriter(tty), config{all: true})
	p.header(nil, []int{0, 1})
	line = string(p.event(nil, e))
	require.NotContains(t, line, "\x1b")
	require.Equal(t, 80+len("\n"), len([]rune(line)))

	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	t.Setenv("NO_COLOR", "")
	p = newText(cli.NewWriter(file), config{all: true})
	p.header(nil, []int{0, 1})
	line = string(p.event(nil, e))
	require.NotContains(t, line, "\x1b")
	require.Contains(t, line, "/to/true\n")
}

// A terminal of any width is enough, and no line is wider.
func TestNarrowTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	s := newSummary(config{mode: exact}, []int{0, 1})
	for i := range uint64(20) {
		e := sample(forkAt(1000-i*10, int(i%2), 4194304, 4194303), "fifteen letters", "")
		s.add(e, 2000)
	}
	s.endRound()
	require.Len(t, s.byRing.best.rows, rows)
	for _, width := range []uint16{1, 3, 5, 20, 60, 80} {
		_, tty := clitest.Terminal(t, width)
		p := newText(cli.NewWriter(tty), config{})
		p.header(nil, []int{0, 1})
		out := string(p.summary(nil, s))
		_, table, _ := strings.Cut(out, "\n\n")
		table, _, _ = strings.Cut(table, "\n\n")
		for _, l := range strings.Split(table, "\n") {
			require.LessOrEqual(t, len([]rune(l)), max(4, int(width)), "%q", l)
		}
	}
}

func TestSpans(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "+0ns", 999: "+999ns", 1000: "+1.00us", 9994: "+9.99us", 9996: "+10.0us", 99_940: "+99.9us", 99_960: "+100us", 999_499: "+999us",
		999_501: "+1.00ms", 48_123_456: "+48.1ms", 1e9: "+1.00s", 123e9: "+123s", 12345e9: "+12345s", -235_000: "-235us",
	} {
		require.Equal(t, want, plus(ns))
	}
	require.Equal(t, "1,234,567 999 1,000", thousands(1234567)+" "+thousands(999)+" "+thousands(1000))
}
