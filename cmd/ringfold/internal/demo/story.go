package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
)

// firstLines is how many events of the stream are shown without --all.
const firstLines = 6

// summary is the end of the output: what order is worth, then a few lines of the stream, then what was counted.
func (t *text) summary(b []byte, s *summary) []byte {
	var out strings.Builder
	out.WriteString("\n" + t.paint(bold, headline(s)) + "\n")
	t.sideBySide(&out, s.byRing.best)
	if !t.all && s.Events > 0 {
		fmt.Fprintf(&out, "\n%s\n%s", t.paint(bold, "The stream begins like this (--all prints all of it):"), t.columns())
		var lines timeline
		for i := range s.first {
			out.WriteString(t.line(&lines, &s.first[i]))
		}
	}
	out.WriteString("\n")
	t.counts(&out, s)
	return append(b, out.String()...)
}

// headline says what order is worth.
func headline(s *summary) string {
	all := count(s.Events, "event")
	if s.Overtaken == 0 {
		return "Read ring by ring, all " + all + " would have come in order too, this time."
	}
	comes := "come"
	if s.Overtaken == 1 {
		comes = "comes"
	}
	line := fmt.Sprintf("Read ring by ring, %s of %s (%.0f %%) %s out of order", thousands(s.Overtaken), all, 100*float64(s.Overtaken)/float64(s.Events), comes)
	if wrong := s.byRing.best.wrong; wrong != "" {
		line += ": here " + wrong
	}
	return line + "."
}

// sideBySide prints the excerpt, in both orders.
func (t *text) sideBySide(out *strings.Builder, x excerpt) {
	if len(x.rows) == 0 {
		return
	}
	width := t.width()
	if width == 0 {
		width = 100
	}
	width = max(0, min(49, (width-2)/2))
	pair := func(left, leftColour, right, rightColour string) {
		left = fmt.Sprintf("%-*s", width, cut(left, width))
		fmt.Fprintf(out, "%s  %s\n", t.paint(leftColour, left), t.paint(rightColour, cut(right, width)))
	}
	out.WriteString("\n")
	pair("  READ RING BY RING", bold, "  READ IN ORDER", bold)
	heads := cells{time: "TIME ms", cpu: "CPU", event: "EVENT", pid: "PID", who: "COMM"}.join("")
	pair(heads, dim, heads, dim)
	ordered := x.inOrder()
	for i, r := range x.rows {
		pair(r.cells(x).join("> "), r.colour(red), ordered[i].cells(x).join("  "), ordered[i].colour(bold))
	}
}

// colour is that of a row: another one if it is of the pair in the wrong order.
func (r row) colour(wrong string) string {
	if r.wrong {
		return wrong
	}
	return ""
}

// cells are the columns of a row.
type cells struct {
	time, cpu, event, pid, who string
	wrong                      bool
}

func (r row) cells(x excerpt) cells {
	first := x.rows[0].time
	for _, other := range x.rows {
		first = min(first, other.time)
	}
	c := cells{time: fmt.Sprintf("%.3f", float64(r.time-first)/1e6), cpu: fmt.Sprint(r.cpu), event: r.name(), wrong: r.wrong}
	if r.kind != perfbuf.KindSample {
		return c
	}
	c.pid, c.who = fmt.Sprint(r.PID), comm(&r.event)
	switch {
	case r.Kind == lifecycle.Fork && r.ChildPID != r.PID:
		c.who = fmt.Sprintf("%s -> %d", c.who, r.ChildPID)
	case r.Kind == lifecycle.Fork:
		c.who += ", a thread"
	case r.TID != r.PID:
		c.who += ", a thread"
	}
	return c
}

// join is the row as text, with a mark if it is of the pair in the wrong order: colours may be missing.
func (c cells) join(mark string) string {
	if !c.wrong {
		mark = "  "
	}
	return fmt.Sprintf("%s%7s %3s  %-5s %7s  %s", mark, c.time, c.cpu, c.event, c.pid, c.who)
}

// counts says what was counted.
func (t *text) counts(out *strings.Builder, s *summary) {
	fmt.Fprintf(out, "%s from %s in %.1f s", count(s.Events, "event"), t.countCPUs(s.CPUs), s.elapsed.Seconds())
	for i, c := range s.PerCPU {
		if s.CPUs > 4 {
			break // --json has them
		}
		fmt.Fprintf(out, "%s %s on CPU %d", []string{":", ","}[min(i, 1)], thousands(c.Events), c.CPU)
	}
	out.WriteString(".\n")
	t.order(out, s)
	if s.Events > 0 {
		fmt.Fprintf(out, "From event to delivery: %s (p50), %s (p99).\n", span(int64(s.LatencyP50NS)), span(int64(s.LatencyP99NS)))
	}
	t.losses(out, s)
}

// order says in which order events came, and how sure that is.
func (t *text) order(out *strings.Builder, s *summary) {
	switch {
	case s.OutOfOrder > 0:
		t.alarm(out, "OUT OF ORDER: %s came after a later one, without a word.", count(s.OutOfOrder, "event"))
	case s.Late > 0 && s.Mode == exact:
		t.alarm(out, "LATE: %s came after a later one, by %s at most. Exact mode rules that out.", count(s.Late, "event"), span(int64(s.LatenessNS)))
	case s.Late > 0:
		fmt.Fprintf(out, "Mode slack: in order, but for %s that came too late (marked LATE), by %s at most.\n"+
			"A longer --slack makes that rarer (it was %v); --mode exact waits for proof.\n", count(s.Late, "event"), span(int64(s.LatenessNS)), time.Duration(s.SlackNS))
	case s.Mode == exact:
		out.WriteString("Mode exact: all in order, none late.\n")
	default:
		fmt.Fprintf(out, "Mode slack: all in order, none late. %v happened to be enough.\n", time.Duration(s.SlackNS))
	}
	if p := s.Barriers; p != nil {
		fmt.Fprintf(out, "Barriers: %s (%s)", thousands(p.Count), p.Provider)
		if p.Count > 0 {
			fmt.Fprintf(out, ", each in %s (p50), %s (p99), %s (max)", span(p.P50NS), span(p.P99NS), span(p.MaxNS))
		}
		if p.Failed > 0 {
			fmt.Fprintf(out, "; %d more failed", p.Failed)
		}
		out.WriteString(".\n")
	}
}

// losses says what is missing, and that this is all.
func (t *text) losses(out *strings.Builder, s *summary) {
	if s.Lost > 0 {
		t.alarm(out, "LOST: %s found their ring full. A larger --ring-size holds more (it was %s).", count(s.Lost, "event"), &t.cfg.ringSize)
	} else {
		fmt.Fprintf(out, "None lost: the fullest ring was %.1f %% full at most.\n", s.RingUse)
	}
	if s.SpilledBytes > 0 {
		fmt.Fprintf(out, "%s of waiting events were copied out of rings that filled up.\n", count(s.SpilledBytes, "byte"))
	}
	if s.Corrupt > 0 {
		fmt.Fprintf(out, "Corrupt memory was skipped: %s.\n", count(s.Corrupt, "time"))
	}
	fmt.Fprintf(out, "%s = %s read + %s lost", count(s.Outputs, "output"), thousands(s.Samples), thousands(s.Lost))
	if s.Unread > 0 {
		fmt.Fprintf(out, " + %s left unread at the end", thousands(s.Unread))
	}
	out.WriteString(".\n")
}

func (t *text) alarm(out *strings.Builder, format string, args ...any) {
	out.WriteString(t.paint(red, fmt.Sprintf(format, args...)) + "\n")
}
