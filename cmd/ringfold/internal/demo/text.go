package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"golang.org/x/sys/unix"
)

// text prints for people: with --all a line per event as it comes, and at the end the picture and the summary.
type text struct {
	cfg   config
	out   io.Writer
	tty   *os.File                         // the terminal, nil if the output is none
	paint func(colour, text string) string // as cli.Colours has it
	lines timeline
}

// timeline is how far a list of lines has come.
type timeline struct {
	begun  bool
	first  uint64 // time of the first event
	last   uint64 // of the line before
	newest uint64 // of all lines
}

// newText prints to out, which need not be the terminal itself.
func newText(out, terminal io.Writer, c config) *text {
	if c.Format == cli.Compact {
		terminal, c.all = nil, true
	}
	return &text{cfg: c, out: out, tty: cli.Terminal(terminal), paint: cli.Colours(terminal)}
}

// Colours, as ANSI has them. Those of CPUs leave out red, which is for what went wrong.
const (
	dim  = "2"
	bold = "1"
	red  = "1;31"
)

var cpuColours = []string{"36", "33", "32", "35", "94", "96", "93", "92", "95"}

func cpuColour(cpu int) string { return cpuColours[cpu%len(cpuColours)] }

// width is the room for a line, 0 if there is no limit. It is asked anew each time: windows change.
func (t *text) width() int {
	if t.tty != nil {
		if w, err := unix.IoctlGetWinsize(int(t.tty.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 {
			return int(w.Col)
		}
	}
	if t.cfg.all {
		return 0
	}
	return 100
}

// say prints a line in a colour.
func (t *text) say(colour, format string, args ...any) {
	fmt.Fprintln(t.out, t.paint(colour, fmt.Sprintf(format, args...)))
}

func (t *text) header(cpus int) {
	for_ := ""
	if t.cfg.duration > 0 {
		for_ = " for " + strings.TrimSuffix(t.cfg.duration.String(), "m0s")
	}
	if t.cfg.simulate {
		t.say(bold, "SIMULATED: these processes and CPUs are made up, and no BPF runs.")
	}
	t.say(dim, "Starting processes on %s, and following their life%s. Ctrl-C ends it.", t.countCPUs(cpus), for_)
	if t.cfg.all {
		t.columns()
	}
}

func (t *text) columns() {
	t.say(bold, "%11s %8s  CPU  %-7s %7s  %-15s  %s", "TIME", "DELTA", "EVENT", "PID", "COMM", "DETAILS")
}

func (t *text) countCPUs(n int) string {
	if t.cfg.simulate {
		return count(uint64(n), "simulated CPU")
	}
	return count(uint64(n), "CPU")
}

func (t *text) event(e *event) {
	if t.cfg.all {
		t.line(&t.lines, e)
	}
}

// line prints an event in columns.
func (t *text) line(l *timeline, e *event) {
	if !l.begun {
		l.begun, l.first, l.last = true, e.TimeNS, e.TimeNS
	}
	late, deltaColour := "", dim
	if e.Late {
		late, deltaColour = "LATE by "+span(int64(l.newest-min(e.TimeNS, l.newest)))+", ", red
	}
	start := t.paint(dim, fmt.Sprintf("%11s", seconds(e.TimeNS, l.first))) + " " + t.paint(deltaColour, fmt.Sprintf("%8s", plus(int64(e.TimeNS-l.last))))
	start += fmt.Sprintf("  %s  ", t.paint(cpuColour(e.CPU), fmt.Sprintf("%3d", e.CPU)))
	l.last, l.newest = e.TimeNS, max(l.newest, e.TimeNS)
	const column = 11 + 1 + 8 + 2 + 3 + 2 // where the rest begins
	switch e.Event {
	case "lost":
		between := "before "
		if e.AfterNS != 0 {
			between = "between " + seconds(e.AfterNS, l.first) + " and "
		}
		rest := fmt.Sprintf("LOST    %s%s on CPU %d %s%s", late, count(e.Lost, "event"), e.CPU, between, seconds(e.TimeNS, l.first))
		fmt.Fprintln(t.out, start+t.paint(red, t.fit(rest, column)))
	case "corrupt":
		fmt.Fprintln(t.out, start+t.paint(red, t.fit("CORRUPT "+late+e.Error, column)))
	default:
		details, colour := describe(e)
		fmt.Fprintln(t.out, start+t.paint(cpuColour(e.CPU), fmt.Sprintf("%-8s", e.Event))+fmt.Sprintf("%7d  %-15s  ", e.PID, comm(e))+
			t.paint(red, late)+t.paint(colour, t.fit(details, column+8+7+2+15+2+len(late))))
	}
}

// fit cuts text that begins at a column to the width.
func (t *text) fit(s string, column int) string {
	if width := t.width(); width > 0 {
		return cut(s, width-column)
	}
	return s
}

// describe says what a process did, and in which colour.
func describe(e *event) (s, colour string) {
	thread := ""
	if e.TID != 0 {
		thread = fmt.Sprintf("thread %d: ", e.TID)
	}
	switch {
	case e.Event == "fork" && e.ChildPID == e.PID:
		return thread + fmt.Sprintf("new thread %d", e.ChildTID), ""
	case e.Event == "fork":
		return thread + fmt.Sprintf("child %d", e.ChildPID), ""
	case e.Event == "exec":
		return thread + cli.Printable(e.Filename), ""
	case e.core:
		return thread + "killed by " + e.Signal + ", core dumped", bold
	case e.Signal != "":
		return thread + "killed by " + e.Signal, bold
	case e.ExitCode != nil && *e.ExitCode != 0:
		return thread + fmt.Sprintf("status %d", *e.ExitCode), bold
	case thread != "":
		return fmt.Sprintf("thread %d", e.TID), "" // as threads do; the process goes on
	}
	return "status 0", ""
}

// comm is a process's name for itself, at most as wide as its column.
func comm(e *event) string { return cut(cli.Printable(e.Comm), 15) }

// cut shortens text to a width.
func cut(s string, width int) string {
	r := []rune(s)
	switch {
	case len(r) <= width:
		return s
	case width < 1:
		return ""
	}
	return string(r[:width-1]) + "…"
}

// count is a number of things, with a verb if one is given.
func count(n uint64, what string, verb ...string) string {
	plural := 0
	if n != 1 {
		what, plural = what+"s", 1
	}
	if len(verb) > 0 {
		what += " " + verb[plural]
	}
	return cli.Count(n) + " " + what
}

// seconds are since the first event, to the microsecond; negative of a late one.
func seconds(at, first uint64) string { return fmt.Sprintf("%.6f", float64(int64(at-first))/1e9) }

// span is a time span in three digits.
func span(ns int64) string { return cli.Round(time.Duration(ns)).String() }

// plus is a span with its sign.
func plus(ns int64) string {
	if ns < 0 {
		return span(ns)
	}
	return "+" + span(ns)
}
