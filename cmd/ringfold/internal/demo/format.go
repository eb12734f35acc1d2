package demo

import (
	"fmt"
	"strconv"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"golang.org/x/sys/unix"
)

// comm is what a process calls itself, as wide as its column at most.
func comm(e *event) string { return cut(cli.Printable(e.Comm()), 15) }

// cut shortens text to width, and shows it.
func cut(s string, width int) string {
	if width < 1 {
		return ""
	}
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// count is a number of things.
func count(n uint64, what string) string {
	if n != 1 {
		what += "s"
	}
	return thousands(n) + " " + what
}

// thousands is 1,234,567.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func signalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s)) // the real-time ones
}

// seconds are of ns, to the microsecond.
func seconds(ns int64) string {
	sign := ""
	if ns < 0 { // it was late
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%06d", sign, ns/1e9, ns%1e9/1e3)
}

// span is a time span in three digits and its unit: 812ns, 48.1ms, 120s.
func span(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
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
	return sign + strconv.FormatFloat(v, 'f', digits, 64) + unit
}

// plus is a span with its sign.
func plus(ns int64) string {
	if ns < 0 {
		return span(ns)
	}
	return "+" + span(ns)
}
