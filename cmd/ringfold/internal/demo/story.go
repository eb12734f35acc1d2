package demo

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// firstLines is how many events of the stream are shown without --all.
const firstLines = 6

// summary is the end of the output: what order is worth, then a few lines of the stream, then the counts.
func (t *text) summary(s *summary) {
	t.say("", "")
	t.say(bold, "%s", headline(s))
	t.sideBySide(s.byRing.best)
	if !t.cfg.all && s.Events > 0 {
		t.say("", "")
		t.say(bold, "The stream begins like this (--all prints all of it):")
		t.columns()
		var lines timeline
		for i := range s.first {
			t.line(&lines, &s.first[i])
		}
	}
	t.say("", "")
	t.counts(s)
	t.order(s)
	if s.Events > 0 {
		t.say("", "From event to delivery: %s (p50), %s (p99).", span(int64(s.LatencyP50NS)), span(int64(s.LatencyP99NS)))
	}
	t.losses(s)
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
	line := fmt.Sprintf("Read ring by ring, %s of %s (%.0f %%) %s out of order", cli.Count(s.Overtaken), all, 100*float64(s.Overtaken)/float64(s.Events), comes)
	if wrong := s.byRing.best.wrong; wrong != "" {
		line += ": here " + wrong
	}
	return line + "."
}

// sideBySide prints the excerpt, in both orders.
func (t *text) sideBySide(x excerpt) {
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
		t.say("", "%s  %s", t.paint(leftColour, left), t.paint(rightColour, cut(right, width)))
	}
	t.say("", "")
	pair("  READ RING BY RING", bold, "  READ IN ORDER", bold)
	heads := cells{"TIME ms", "CPU", "EVENT", "PID", "COMM"}.join("  ")
	pair(heads, dim, heads, dim)
	ordered := x.inOrder()
	for i, r := range x.rows {
		left, leftColour, right, rightColour := "  ", "", "  ", ""
		if r.wrong {
			left, leftColour = "> ", red // a mark, too: colours may be missing
		}
		if ordered[i].wrong {
			rightColour = bold
		}
		pair(r.cells(x).join(left), leftColour, ordered[i].cells(x).join(right), rightColour)
	}
}

// cells are the columns of a row.
type cells struct{ Time, CPU, Event, PID, Who string }

func (r row) cells(x excerpt) cells {
	first := x.inOrder()[0].TimeNS
	c := cells{Time: fmt.Sprintf("%.3f", float64(r.TimeNS-first)/1e6), CPU: fmt.Sprint(r.CPU), Event: r.Event}
	if r.Process == nil {
		return c
	}
	c.PID, c.Who = fmt.Sprint(r.PID), comm(&r.event)
	switch {
	case r.Event == "fork" && r.ChildPID != r.PID:
		c.Who = fmt.Sprintf("%s -> %d", c.Who, r.ChildPID)
	case r.Event == "fork" || r.TID != 0:
		c.Who += ", a thread"
	}
	return c
}

// join is the row as text, behind a mark.
func (c cells) join(mark string) string {
	return fmt.Sprintf("%s%7s %3s  %-5s %7s  %s", mark, c.Time, c.CPU, c.Event, c.PID, c.Who)
}

// counts says what was counted.
func (t *text) counts(s *summary) {
	line := fmt.Sprintf("%s from %s in %.1f s", count(s.Events, "event"), t.countCPUs(s.CPUs), s.elapsed.Seconds())
	for i, c := range s.PerCPU {
		if s.CPUs > 4 {
			break // --json has them
		}
		line += fmt.Sprintf("%s %s on CPU %d", []string{":", ","}[min(i, 1)], cli.Count(c.Events), c.CPU)
	}
	t.say("", "%s.", line)
}

// order says in which order events came, and how sure that is.
func (t *text) order(s *summary) {
	switch {
	case s.OutOfOrder > 0:
		t.say(red, "OUT OF ORDER: %s came after a later one, without a word.", count(s.OutOfOrder, "event"))
	case s.Late > 0 && s.Mode == exact:
		t.say(red, "LATE: %s came after a later one, by %s at most. Exact mode rules that out.", count(s.Late, "event"), span(int64(s.LatenessNS)))
	case s.Late > 0:
		t.say("", "Mode slack: in order, but for %s that came too late (marked LATE), by %s at most.\n"+
			"A longer --slack makes that rarer (it was %v); --mode exact waits for proof.", count(s.Late, "event"), span(int64(s.LatenessNS)), time.Duration(s.SlackNS))
	case s.Mode == exact:
		t.say("", "Mode exact: all in order, none late.")
	default:
		t.say("", "Mode slack: all in order, none late. %v happened to be enough.", time.Duration(s.SlackNS))
	}
	if p := s.Barriers; p != nil {
		line := fmt.Sprintf("Barriers: %s (%s)", cli.Count(p.Count), p.Provider)
		if p.Count > 0 {
			line += fmt.Sprintf(", each in %s (p50), %s (p99), %s (max)", span(p.P50NS), span(p.P99NS), span(p.MaxNS))
		}
		if p.Failed > 0 {
			line += fmt.Sprintf("; %d more failed", p.Failed)
		}
		t.say("", "%s.", line)
	}
}

// losses says what is missing, and that this is all.
func (t *text) losses(s *summary) {
	if s.Lost > 0 {
		t.say(red, "LOST: %s found their ring full. A larger --ring-size holds more (it was %s).", count(s.Lost, "event"), &t.cfg.ringSize)
	} else {
		t.say("", "None lost: the fullest ring was %.1f %% full at most.", s.RingUse)
	}
	if s.SpilledBytes > 0 {
		t.say("", "%s of waiting events were copied out of rings that filled up.", count(s.SpilledBytes, "byte"))
	}
	if s.Corrupt > 0 {
		t.say("", "Corrupt memory was skipped: %s.", count(s.Corrupt, "time"))
	}
	line := fmt.Sprintf("%s = %s read + %s lost", count(s.Outputs, "output"), cli.Count(s.Samples), cli.Count(s.Lost))
	if s.Unread > 0 {
		line += fmt.Sprintf(" + %s left unread at the end", cli.Count(s.Unread))
	}
	t.say("", "%s.", line)
}
