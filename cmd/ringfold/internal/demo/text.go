package demo

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// text prints for people: a line per event, in columns. On a terminal each CPU
// has a colour, and if there are few, a place of its own in the CPU column: one sees how they take turns.
type text struct {
	cfg     config
	tty     *os.File // the terminal, nil if the output is none
	colours bool

	cpus     []int
	lanes    bool
	cpuWidth int

	begun  bool
	first  uint64 // time of the first event
	last   uint64 // of the line before
	newest uint64 // of all lines

	scratch []byte
}

func newText(out *os.File, c config) *text {
	t := &text{cfg: c}
	if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err == nil {
		t.tty = out
		t.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

// Colours, as ANSI has them. Those of CPUs leave out red, which is for what went wrong.
const (
	dim  = "2"
	bold = "1"
	red  = "1;31"
)

var cpuColours = []string{"36", "33", "32", "35", "94", "96", "93", "92", "95"}

func (t *text) cpuColour(cpu int) string { return cpuColours[cpu%len(cpuColours)] }

// on and off put what is appended between them in a colour.
func (t *text) on(b []byte, colour string) []byte {
	if !t.colours || colour == "" {
		return b
	}
	return append(append(append(b, "\x1b["...), colour...), 'm')
}

func (t *text) off(b []byte) []byte {
	if !t.colours {
		return b
	}
	return append(b, "\x1b[0m"...)
}

func (t *text) header(b []byte, cpus []int) []byte {
	t.cpus, t.cpuWidth = cpus, 3
	if t.tty != nil && len(cpus) <= 8 && cpus[len(cpus)-1] <= 9 {
		t.lanes = true
		t.cpuWidth = max(3, 2*len(cpus)-1)
	}
	what := "fork, exec and exit"
	if t.cfg.sched {
		what = "fork, exec, exit, wake-ups and switches"
	}
	if t.cfg.simulate {
		b = t.on(b, bold)
		b = append(b, "SIMULATED: these processes and CPUs are made up, and no BPF runs."...)
		b = append(t.off(b), '\n')
	}
	b = t.on(b, dim)
	b = fmt.Appendf(b, "Following %s on %s. Ctrl-C ends it.", what, t.countCPUs(len(cpus)))
	b = append(t.off(b), '\n')
	b = t.on(b, bold)
	b = fmt.Appendf(b, "%11s %8s  %-*s  %-7s %7s  %-15s  %s", "TIME", "DELTA", t.cpuWidth, "CPU", "EVENT", "PID", "COMM", "DETAILS")
	return append(t.off(b), '\n')
}

func (t *text) countCPUs(n int) string {
	if t.cfg.simulate {
		return count(n, "simulated CPU")
	}
	return count(n, "CPU")
}

func (t *text) event(b []byte, e *event) []byte {
	if !t.begun {
		t.begun, t.first, t.last = true, e.time, e.time
	}
	late := ""
	if e.late {
		late = "LATE by " + span(int64(t.newest-min(e.time, t.newest))) + ", "
	}

	b = t.on(b, dim)
	b = right(t.appendTime(b, e.time), len(b), 11)
	b = append(b, ' ')
	if e.late {
		b = t.on(t.off(b), red)
	}
	b = right(appendSpan(b, int64(e.time-t.last), true), len(b), 8)
	b = append(t.off(b), ' ', ' ')
	b = t.appendCPU(b, e.cpu)
	b = append(b, ' ', ' ')

	t.last, t.newest = e.time, max(t.newest, e.time)
	if e.Kind == kindLost || e.Kind == kindCorrupt {
		b = t.on(b, red)
		b = t.appendTrouble(b, e, late)
		return append(t.off(b), '\n')
	}

	b = t.on(b, t.cpuColour(e.cpu))
	b = left(append(b, e.Kind.String()...), len(b), 8)
	b = t.off(b)
	b = right(strconv.AppendUint(b, uint64(e.PID), 10), len(b), 7)
	b = append(b, ' ', ' ')
	b = left(appendPrintable(b, e.comm()), len(b), 15)
	b = append(b, ' ', ' ')
	b = t.appendLate(b, late)
	b = t.appendFitting(b, e, 11+1+8+2+t.cpuWidth+2+8+7+2+15+2+len(late))
	return append(b, '\n')
}

// appendTime appends seconds since the first event.
func (t *text) appendTime(b []byte, ns uint64) []byte {
	d := int64(ns - t.first)
	if d < 0 { // it was late
		b, d = append(b, '-'), -d
	}
	b = strconv.AppendInt(b, d/1e9, 10)
	b = append(b, '.')
	return zeros(b, d%1e9/1e3, 6)
}

func (t *text) appendCPU(b []byte, cpu int) []byte {
	if !t.lanes {
		return right(strconv.AppendInt(b, int64(cpu), 10), len(b), t.cpuWidth)
	}
	width := 0
	for _, c := range t.cpus {
		if width > 0 {
			b = append(b, ' ')
			width++
		}
		if c == cpu {
			b = t.on(b, t.cpuColour(cpu))
			b = t.off(strconv.AppendInt(b, int64(cpu), 10))
		} else {
			b = t.off(append(t.on(b, dim), '.'))
		}
		width++
	}
	for ; width < t.cpuWidth; width++ {
		b = append(b, ' ')
	}
	return b
}

func (t *text) appendLate(b []byte, late string) []byte {
	if late == "" {
		return b
	}
	return t.off(append(t.on(b, red), late...))
}

// appendTrouble says what a loss or corrupt memory is, in place of the other columns.
func (t *text) appendTrouble(b []byte, e *event, late string) []byte {
	if e.Kind == kindCorrupt {
		return fmt.Appendf(b, "CORRUPT %s%v", late, e.err)
	}
	b = fmt.Appendf(b, "LOST    %s%s on CPU %d ", late, count(int(e.lost), "event"), e.cpu)
	if e.after != 0 {
		b = append(t.appendTime(append(b, "between "...), e.after), " and "...)
	} else {
		b = append(b, "before "...)
	}
	return t.appendTime(b, e.time)
}

// appendFitting appends an event's details, cut to what is left of the terminal's width after column.
func (t *text) appendFitting(b []byte, e *event, column int) []byte {
	d, colour := appendText(t.scratch[:0], e)
	t.scratch = d
	if t.tty != nil {
		// Asked anew each time: windows change, and asking costs less than printing.
		if w, err := unix.IoctlGetWinsize(int(t.tty.Fd()), unix.TIOCGWINSZ); err == nil && w.Col > 0 {
			d = cut(d, int(w.Col)-column)
		}
	}
	b = append(t.on(b, colour), d...)
	if colour != "" {
		b = t.off(b)
	}
	return b
}

// appendText says what an event is about, and in which colour.
func appendText(b []byte, e *event) (_ []byte, colour string) {
	if e.TID != e.PID {
		b = appendUint(append(b, "thread "...), e.TID)
		if e.Kind == kindExit && e.Code == 0 {
			return b, "" // as threads do; the process goes on
		}
		b = append(b, ": "...)
	}
	switch e.Kind {
	case kindFork:
		if e.OtherPID == e.PID {
			return appendUint(append(b, "new thread "...), e.OtherTID), ""
		}
		return appendUint(append(b, "child "...), e.OtherPID), ""
	case kindExec:
		return appendPrintable(b, e.detail()), ""
	case kindExit:
		return appendStatus(b, unix.WaitStatus(e.Code))
	case kindWakeup:
		return appendOther(append(b, "wakes "...), e), ""
	case kindSwitch:
		b = appendOther(append(b, "-> "...), e)
		if e.Code != 0 {
			b = append(b, ", preempted"...)
		}
		return b, ""
	}
	return b, ""
}

func appendStatus(b []byte, status unix.WaitStatus) (_ []byte, colour string) {
	switch {
	case status.Signaled():
		b = append(append(b, "killed by "...), signalName(status.Signal())...)
		if status.CoreDump() {
			b = append(b, ", core dumped"...)
		}
		return b, bold
	case status.ExitStatus() != 0:
		return strconv.AppendInt(append(b, "status "...), int64(status.ExitStatus()), 10), bold
	}
	return append(b, "status 0"...), ""
}

// appendOther names the thread that is woken or runs next.
func appendOther(b []byte, e *event) []byte {
	b = append(appendPrintable(b, e.detail()), '[')
	return append(appendUint(b, e.OtherTID), ']')
}

func signalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s)) // the real-time ones
}

// Bits of text.

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func appendUint(b []byte, v uint32) []byte { return strconv.AppendUint(b, uint64(v), 10) }

var spaces = []byte("                ")

// right and left fill a column, given where in b it begins.
func right(b []byte, start, width int) []byte {
	return slices.Insert(b, start, spaces[:max(0, width-(len(b)-start))]...)
}

func left(b []byte, start, width int) []byte {
	return append(b, spaces[:max(0, width-utf8.RuneCount(b[start:]))]...)
}

// zeros appends v with leading zeros.
func zeros(b []byte, v int64, digits int) []byte {
	start := len(b)
	b = strconv.AppendInt(b, v, 10)
	for len(b)-start < digits {
		b = slices.Insert(b, start, '0')
	}
	return b
}

func span(ns int64) string { return string(appendSpan(nil, ns, false)) }

// appendSpan appends a time span in three digits and its unit: 812ns, 48.1ms, 120s.
func appendSpan(b []byte, ns int64, sign bool) []byte {
	switch {
	case ns < 0:
		b, ns = append(b, '-'), -ns
	case sign:
		b = append(b, '+')
	}
	v, unit := float64(ns), "ns"
	for _, next := range []string{"us", "ms", "s"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, next
	}
	digits := 0
	switch {
	case unit == "ns" || v >= 99.95:
	case v >= 9.995:
		digits = 1
	default:
		digits = 2
	}
	return append(strconv.AppendFloat(b, v, 'f', digits, 64), unit...)
}
