package tail

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// text prints for people: a line or some per event.
type text struct {
	clock
	from int // width of a map's name, 0 if there is but one
	row  int // bytes in a row of a hexdump
}

// newText fits hexdumps into a terminal.
func newText(c *config, set *source.Set, stdout io.Writer) *text {
	t := &text{clock: newClock(c, set), row: 16}
	for _, s := range set.All() {
		t.from = max(t.from, len(cli.Printable(s.Label)))
	}
	if c.Fleet != nil {
		t.from = 16
	}
	if f := cli.Terminal(stdout); f != nil {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			for t.row > 4 && t.dataAt()+rowWidth(t.row) > int(size.Col) {
				t.row /= 2
			}
		}
	}
	return t
}

// Width of a line before the payload: time, CPU, length.
const (
	timeWidth = 15 // of seconds; times of day are as wide
	dataAt    = timeWidth + 1 + 3 + 1 + 5 + 2
)

func (t *text) header(b []byte) []byte {
	b = fmt.Appendf(b, "%*s ", timeWidth, t.title())
	return fmt.Appendf(t.appendFrom(b, "MAP"), "%3s %5s  %s\n", "CPU", "LEN", "DATA")
}

// appendFrom appends a map's name, if there are several.
func (t *text) appendFrom(b []byte, from string) []byte {
	if t.from > 0 {
		b = fmt.Appendf(b, "%-*s ", t.from, cli.Printable(from))
	}
	return b
}

// dataAt is where a line's payload begins.
func (t *text) dataAt() int {
	if t.from > 0 {
		return dataAt + t.from + 1
	}
	return dataAt
}

func (t *text) event(b []byte, ev source.Event) []byte {
	b = fmt.Appendf(b, "%*s ", timeWidth, t.appendTime(nil, ev.Time()))
	t.from = max(t.from, len(ev.From.Label)) // a fleet's hosts come in time
	b = t.appendFrom(b, ev.From.Label)
	b = append(appendCPU(b, ev.CPU()), ' ')
	switch ev.Kind() {
	case perfbuf.KindLost, perfbuf.KindShed:
		b = fmt.Appendf(b, " %s  ", strings.ToUpper(ev.Kind().String()))
		switch why := cli.Printable(ev.Reason()); {
		case why == "":
			b = append(b, plural(ev.Lost(), "event")...)
		case ev.Lost() == 0: // nobody has counted them
			b = append(b, why...)
		default:
			b = fmt.Appendf(b, "%s: %s", plural(ev.Lost(), "event"), why)
		}
		if ev.Kind() == perfbuf.KindShed {
			b = fmt.Appendf(b, " of lane %d", ev.Lane())
		}
		if ev.LostAfter() != 0 {
			b = t.appendInterval(b, ev)
		}
	case perfbuf.KindCorrupt:
		b = fmt.Appendf(b, " CORRUPT  %v", ev.Err())
	default:
		b = fmt.Appendf(b, "%5d  ", len(ev.Bytes()))
		if ev.Late() {
			b = append(b, "LATE  "...)
		}
		if ev.Fields != nil {
			b = ev.Fields.AppendText(b)
		} else {
			b = appendHexdump(b, ev.Bytes(), t.dataAt(), t.row)
		}
	}
	return append(b, '\n')
}

// appendCPU appends a CPU, which a ring buffer may not know.
func appendCPU(b []byte, cpu int) []byte {
	if cpu < 0 {
		return append(b, "  -"...)
	}
	return fmt.Appendf(b, "%3d", cpu)
}

// appendInterval says within how long before its report a loss has happened.
func (t *text) appendInterval(b []byte, ev source.Event) []byte {
	return fmt.Appendf(b, ", within %v before this", time.Duration(ev.Time()-ev.LostAfter()).Round(time.Microsecond/10))
}

func (t *text) summary(b []byte, s *summary) []byte {
	b = fmt.Appendf(b, "\n%s and %d lost of %s in %.1f s", plural(s.Events, "event"), s.Lost, s.names, s.Seconds)
	switch s.Mode {
	case source.Exact:
		b = append(b, ", in order of time.\n"...)
	case source.Slack:
		b = fmt.Appendf(b, ", by time with a slack of %v.\n", time.Duration(s.SlackNS))
	default:
		b = append(b, ", as they lay in the ring buffer.\n"...)
	}
	b = fmt.Appendf(t.appendFrom(b, "MAP"), "%3s %10s %8s %8s %12s %5s\n", "CPU", "EVENTS", "LOST", "CORRUPT", "BYTES", "FULL")
	for _, c := range s.CPUs {
		b = appendCPU(t.appendFrom(b, c.label), c.CPU)
		b = fmt.Appendf(b, " %10d %8d %8d %12d %5s\n", c.Events, c.Lost, c.Corrupt, c.Bytes, cli.Share(c.HighWater, c.RingBytes))
	}
	if s.Late > 0 {
		why := "a longer --slack makes that rarer; --mode exact waits for proof instead."
		if s.Mode == source.Exact {
			why = "their programs may sleep, or took the time long before the output."
		}
		b = fmt.Appendf(b, "LATE: %s came after later ones, by up to %v: %s\n", plural(s.Late, "event"), time.Duration(s.MaxLatenessNS), why)
	}
	if s.Untimed > 0 {
		b = fmt.Appendf(b, "UNTIMED: %s had no time where time= says, and are not in order by it.\n", plural(s.Untimed, "event"))
	}
	switch size := cli.Size(s.RingBytes); {
	case s.Lost == 0 || s.Fleet != nil: // a fleet's losses have their reasons
	case size == 0:
		b = append(b, "LOST: outputs found their ring full when this was recorded. A larger --ring-size of record holds more.\n"...)
	default:
		b = fmt.Appendf(b, "LOST: outputs found their ring full. A larger --ring-size holds more (it was %v).\n", &size)
	}
	if s.Shed > 0 {
		b = fmt.Appendf(b, "SHED: programs left out %s, to keep room for those in other lanes.\n", plural(s.Shed, "event"))
	}
	if s.Filtered > 0 {
		b = fmt.Appendf(b, "Left out: %s that did not match.\n", plural(s.Filtered, "event"))
	}
	if s.Unprinted > 0 {
		b = fmt.Appendf(b, "Not printed: %s that had come by then.\n", plural(s.Unprinted, "event"))
	}
	if s.Replaced > 0 {
		b = fmt.Appendf(b, "The previous reader of the map (%s) receives nothing until it is restarted or takes the map back.\n", plural(uint64(s.Replaced), "CPU"))
	}
	if s.OwnedUntil > 0 {
		b = fmt.Appendf(b, "DISPLACED: another reader has taken the map (%s): events after %s may be missing.\n",
			plural(uint64(*s.Displaced), "CPU"), t.appendTime(nil, s.OwnedUntil))
	}
	if s.Fleet != nil {
		b = t.appendFleet(b, s.Fleet)
	}
	if s.Command != nil {
		b = fmt.Appendf(b, "The command %s ended with %s.\n", strings.Join(s.Command.Args, " "), s.Command.Status)
	}
	return b
}

// plural is such as "1 event" or "2 events".
func plural(n uint64, what string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
