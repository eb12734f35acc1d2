package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// text prints lines with columns.
type text struct {
	began bool
	width int // of the hosts' column, which grows
}

const timeLayout = "2006-01-02 15:04:05.000000"

func localTime(t time.Time) string { return t.Local().Format(timeLayout) }

func (t *text) item(b []byte, i tail.Item) []byte {
	t.width = max(t.width, 8, len(cli.Printable(i.Host)))
	if !t.began {
		t.began = true
		b = fmt.Appendf(b, "%-*s  %-*s %3s %-4s %7s %-15s %10s  %s\n", len(timeLayout), "WALL TIME", t.width, "HOST", "CPU", "WHAT", "PID", "COMM", "ERROR", "DETAIL")
	}
	at := strings.Repeat(" ", len(timeLayout)-1) + "-"
	off := "-"
	if i.Wall != 0 {
		at, off = localTime(time.Unix(0, i.Wall)), "±"+short(time.Duration(min(i.Error, 1<<62)))
		if i.Error >= clock.Unknown {
			off = "unknown"
		}
	}
	ev := i.Event
	cpu, pid := strconv.Itoa(int(ev.Cpu)), strconv.Itoa(int(ev.Pid))
	if ev.Gap != nil {
		cpu, pid = "-", "-"
	}
	b = fmt.Appendf(b, "%s  %-*s %3s %-4s %7s %-15s %10s", at, t.width, cli.Printable(i.Host), cpu, eventName(ev.Kind), pid, cli.Printable(ev.Comm), off)
	return append(ending(b, "  ", i), '\n')
}

// compact prints lines without columns, for narrow terminals and for grep: no date, no errors of
// clocks.
type compact struct{ text }

func (*compact) item(b []byte, i tail.Item) []byte {
	at := "-"
	if i.Wall != 0 {
		at = time.Unix(0, i.Wall).Format(timeLayout[len("2006-01-02 "):])
	}
	b = fmt.Appendf(b, "%s %s %s", at, cli.Printable(i.Host), eventName(i.Event.Kind))
	if i.Event.Gap == nil {
		b = fmt.Appendf(b, " %d %s", i.Event.Pid, cli.Printable(i.Event.Comm))
	}
	return append(ending(b, " ", i), '\n')
}

// ending is what only some events have.
func ending(b []byte, before string, i tail.Item) []byte {
	if detail := detail(i); detail != "" {
		b = append(append(b, before...), detail...)
	}
	if i.Late {
		b = append(b, " (late)"...)
	}
	if i.Forced {
		b = append(b, " (forced)"...)
	}
	return b
}

// detail is what only events of the kind have.
func detail(i tail.Item) string {
	ev := i.Event
	switch {
	case ev.Gap != nil:
		return gapText(i)
	case ev.Kind == wire.Event_FORK && ev.OtherPid == ev.Pid:
		return fmt.Sprintf("thread %d", ev.OtherTid)
	case ev.Kind == wire.Event_FORK:
		return fmt.Sprintf("child %d", ev.OtherPid)
	case ev.Kind == wire.Event_EXIT:
		if status := syscall.WaitStatus(ev.Code); status.Signaled() {
			return fmt.Sprintf("killed by signal %d", int(status.Signal()))
		} else if status != 0 {
			return fmt.Sprintf("status %d", status.ExitStatus())
		}
		return ""
	}
	return cli.Printable(ev.Detail)
}

func gapText(i tail.Item) string {
	gap := i.Event.Gap
	s := gap.Reason.String() + ": "
	switch {
	case gap.Reason == wire.Gap_HOST_SILENT:
		s += "nothing comes of the host"
	case gap.Reason == wire.Gap_HOST_BEHIND:
		s += "events of others wait for the host"
	case gap.Reason == wire.Gap_TWO_AGENTS:
		s += "two agents say that they are this host"
	case gap.Count > 0:
		s += fmt.Sprintf("%d events are missing", gap.Count)
	default:
		s += "events may be missing"
	}
	if i.After != 0 {
		s += " since " + localTime(time.Unix(0, i.After))
	}
	if i.Event.Detail != "" {
		s += " (" + cli.Printable(i.Event.Detail) + ")"
	}
	return s
}

// short is a duration with three digits or so.
func short(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*unit {
			return d.Round(unit / 10).String()
		}
	}
	return d.String()
}

func (t *text) summary(b []byte, p *printed, r tail.Result) []byte {
	heard := 0
	for _, h := range r.ByHost {
		if !h.From.IsZero() {
			heard++
		}
	}
	b = fmt.Appendf(b, "\n%d events of %d hosts", r.Events, heard)
	if p.events != r.Events {
		b = fmt.Appendf(b, ", of which %d were printed", p.events)
	}
	if r.Unread > 0 {
		b = fmt.Appendf(b, "; %d more have come", r.Unread)
	}
	b = append(b, '\n')
	if len(r.ByHost) > 0 {
		b = fmt.Appendf(b, "  %-*s %10s %6s  %-*s  TO\n", max(t.width, 8), "HOST", "EVENTS", "GAPS", len(timeLayout), "KNOWN FROM")
	}
	for _, host := range slices.Sorted(maps.Keys(r.ByHost)) {
		h, from, to := r.ByHost[host], "-", "-"
		if !h.From.IsZero() {
			from, to = localTime(h.From), localTime(h.To)
		}
		b = fmt.Appendf(b, "  %-*s %10d %6d  %-*s  %s\n", max(t.width, 8), cli.Printable(host), h.Events, h.Gaps, len(timeLayout), from, to)
	}
	b = fmt.Appendf(b, "late %d, forced %d; batches that came twice %d; messages that could not be read %d\n", r.Late, r.Forced, r.Duplicates, r.Malformed)
	for _, reason := range slices.Sorted(maps.Keys(r.Gaps)) {
		b = fmt.Appendf(b, "gaps %-15s %6d, with %d events as far as is known\n", reason, r.Gaps[reason].Gaps, r.Gaps[reason].Events)
	}
	if w := r.Waiting; w != nil {
		b = fmt.Appendf(b, "until the end, %d events waited for %s since %s\n", w.Events, cli.Printable(w.Host), localTime(w.Since))
	}
	if len(p.unknown) == 0 {
		b = append(b, "complete: no event of these hosts is missing between these times. Before, after, and on other hosts: unknown\n"...)
	} else {
		b = append(b, "not known to be complete:\n"...)
	}
	for _, why := range p.unknown {
		b = append(append(append(b, "  "...), cli.Printable(why)...), '\n')
	}
	if p.delay.Len() > 0 {
		b = fmt.Appendf(b, "from event to print: p50 %s, p99 %s\n", short(time.Duration(p.delay.Quantile(0.5))), short(time.Duration(p.delay.Quantile(0.99))))
	}
	if uint64(r.MaxError) >= clock.Unknown {
		b = append(b, "clocks of hosts are not synchronised, as they say: the order between hosts is not assured\n"...)
	} else if r.Events > 0 {
		b = fmt.Appendf(b, "times are wrong by ±%s at most, as the hosts say: the order between hosts is as good as that\n", short(r.MaxError))
	}
	return b
}
