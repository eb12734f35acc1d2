package demo

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// text prints for people: with --all a line per event as it comes, and at the end the picture and the summary. On a terminal
// each CPU has a colour, and if there are few, a place of its own in the CPU column: one sees how they take turns.
type text struct {
	cfg   config
	all   bool                             // print events as they come
	tty   *os.File                         // the terminal, nil if the output is none
	paint func(colour, text string) string // as cli.Colours has it

	cpus     []int
	lanes    bool
	cpuWidth int
	lines    timeline
}

// timeline is where a list of lines has come to.
type timeline struct {
	begun  bool
	first  uint64 // time of the first event
	last   uint64 // of the line before
	newest uint64 // of all lines
}

func newText(out io.Writer, c config) *text {
	if c.Format == cli.Compact {
		out, c.all = nil, true
	}
	return &text{cfg: c, all: c.all, tty: cli.Terminal(out), paint: cli.Colours(out)}
}

// Colours, as ANSI has them. Those of CPUs leave out red, which is for what went wrong.
const (
	dim  = "2"
	bold = "1"
	red  = "1;31"
)

var cpuColours = []string{"36", "33", "32", "35", "94", "96", "93", "92", "95"}

func cpuColour(cpu int) string { return cpuColours[cpu%len(cpuColours)] }

// width is what a line has room for, 0 if it may be as long as it likes. It is asked anew each time: windows change.
func (t *text) width() int {
	if t.tty != nil {
		if w, err := unix.IoctlGetWinsize(int(t.tty.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 {
			return int(w.Col)
		}
	}
	if t.all {
		return 0
	}
	return 100
}

func (t *text) header(b []byte, cpus []int) []byte {
	t.cpus, t.cpuWidth = cpus, 3
	if t.tty != nil && len(cpus) <= 8 && cpus[len(cpus)-1] <= 9 {
		t.lanes = true
		t.cpuWidth = max(3, 2*len(cpus)-1)
	}
	for_ := ""
	if t.cfg.duration > 0 {
		for_ = " for " + strings.TrimSuffix(t.cfg.duration.String(), "m0s")
	}
	if t.cfg.simulate {
		b = append(b, t.paint(bold, "SIMULATED: these processes and CPUs are made up, and no BPF runs.")+"\n"...)
	}
	b = append(b, t.paint(dim, fmt.Sprintf("Starting processes on %s, and following their life%s. Ctrl-C ends it.", t.countCPUs(len(cpus)), for_))+"\n"...)
	if t.all {
		b = append(b, t.columns()...)
	}
	return b
}

func (t *text) columns() string {
	return t.paint(bold, fmt.Sprintf("%11s %8s  %-*s  %-7s %7s  %-15s  %s", "TIME", "DELTA", t.cpuWidth, "CPU", "EVENT", "PID", "COMM", "DETAILS")) + "\n"
}

func (t *text) countCPUs(n int) string {
	if t.cfg.simulate {
		return count(uint64(n), "simulated CPU")
	}
	return count(uint64(n), "CPU")
}

func (t *text) event(b []byte, e *event) []byte {
	if !t.all {
		return b
	}
	return append(b, t.line(&t.lines, e)...)
}

// line is an event in columns.
func (t *text) line(l *timeline, e *event) string {
	if !l.begun {
		l.begun, l.first, l.last = true, e.time, e.time
	}
	late, deltaColour := "", dim
	if e.late {
		late, deltaColour = "LATE by "+span(int64(l.newest-min(e.time, l.newest)))+", ", red
	}
	time := fmt.Sprintf("%11s", seconds(int64(e.time-l.first)))
	delta := fmt.Sprintf("%8s", plus(int64(e.time-l.last)))
	start := t.paint(dim, time) + " " + t.paint(deltaColour, delta) + "  " + t.cpu(e.cpu) + "  "
	column := len(time) + 1 + len(delta) + 2 + t.cpuWidth + 2
	l.last, l.newest = e.time, max(l.newest, e.time)
	switch e.kind {
	case perfbuf.KindLost:
		between := "before "
		if e.after != 0 {
			between = "between " + seconds(int64(e.after-l.first)) + " and "
		}
		return start + t.paint(red, t.fit(fmt.Sprintf("LOST    %s%s on CPU %d %s%s", late, count(e.lost, "event"), e.cpu, between, seconds(int64(e.time-l.first))), column)) + "\n"
	case perfbuf.KindCorrupt:
		return start + t.paint(red, t.fit(fmt.Sprintf("CORRUPT %s%v", late, e.err), column)) + "\n"
	}
	who := fmt.Sprintf("%7d  %-15s  ", e.PID, comm(e))
	details, colour := describe(e)
	return start + t.paint(cpuColour(e.cpu), fmt.Sprintf("%-8s", e.name())) + who + t.paint(red, late) +
		t.paint(colour, t.fit(details, column+8+7+2+15+2+len(late))) + "\n"
}

// fit cuts what begins at a column to the width.
func (t *text) fit(s string, column int) string {
	if width := t.width(); width > 0 {
		return cut(s, width-column)
	}
	return s
}

func (t *text) cpu(cpu int) string {
	if !t.lanes {
		return fmt.Sprintf("%*d", t.cpuWidth, cpu)
	}
	lanes := slices.Repeat([]string{t.paint(dim, ".")}, len(t.cpus))
	lanes[slices.Index(t.cpus, cpu)] = t.paint(cpuColour(cpu), strconv.Itoa(cpu))
	return strings.Join(lanes, " ") + strings.Repeat(" ", t.cpuWidth-(2*len(lanes)-1))
}

// describe says what an event is about, and in which colour.
func describe(e *event) (s, colour string) {
	if e.TID != e.PID {
		s = fmt.Sprintf("thread %d", e.TID)
		if e.Kind == lifecycle.Exit && e.Code == 0 {
			return s, "" // as threads do; the process goes on
		}
		s += ": "
	}
	switch e.Kind {
	case lifecycle.Fork:
		if e.ChildPID == e.PID {
			return s + fmt.Sprintf("new thread %d", e.ChildTID), ""
		}
		return s + fmt.Sprintf("child %d", e.ChildPID), ""
	case lifecycle.Exec:
		return s + cli.Printable(e.File()), ""
	}
	status := unix.WaitStatus(e.Code)
	switch {
	case status.Signaled() && status.CoreDump():
		return s + "killed by " + signalName(status.Signal()) + ", core dumped", bold
	case status.Signaled():
		return s + "killed by " + signalName(status.Signal()), bold
	case status.ExitStatus() != 0:
		return s + fmt.Sprintf("status %d", status.ExitStatus()), bold
	}
	return s + "status 0", ""
}
