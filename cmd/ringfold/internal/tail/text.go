package tail

import (
	"fmt"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// text prints for people: a line or some per event.
type text struct {
	wall int64  // what is added to a time to have that of day, in ns; 0: times are from the first event on
	zero uint64 // the first event's time
	from int    // width of a map's name, 0 if there is but one
}

func newText(c config, all []*source) *text {
	t := &text{}
	for _, s := range all {
		t.from = max(t.from, len(s.label))
	}
	if c.wall {
		// Events are stamped by CLOCK_MONOTONIC. If the time of day is set meanwhile, lines do not follow.
		var now unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
		t.wall = time.Now().UnixNano() - now.Nano()
	}
	return t
}

// Width of a line before the payload: time, CPU, length.
const (
	timeWidth = 15 // of seconds; times of day are as wide
	dataAt    = timeWidth + 1 + 3 + 1 + 5 + 2
)

func (t *text) header(b []byte) []byte {
	b = fmt.Appendf(b, "%*s ", timeWidth, "TIME")
	return fmt.Appendf(t.appendFrom(b, "MAP"), "%3s %5s  %s\n", "CPU", "LEN", "DATA")
}

// appendFrom appends a map's name, if there are several.
func (t *text) appendFrom(b []byte, from string) []byte {
	if t.from > 0 {
		b = fmt.Appendf(b, "%-*s ", t.from, from)
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

// appendTime appends a time of CLOCK_MONOTONIC. A late event may be older than the first one.
func (t *text) appendTime(b []byte, ns uint64) []byte {
	if ns == 0 { // of a ring buffer
		return fmt.Appendf(b, "%*s", timeWidth, "-")
	}
	if t.wall != 0 {
		return time.Unix(0, int64(ns)+t.wall).AppendFormat(b, "15:04:05.000000")
	}
	d, sign := int64(ns-t.zero), ""
	if d < 0 {
		d, sign = -d, "-"
	}
	return fmt.Appendf(b, "%*s", timeWidth, fmt.Sprintf("%s%d.%09d", sign, d/1e9, d%1e9))
}

func (t *text) event(b []byte, ev perfbuf.Event, from string, fields fields) []byte {
	if t.zero == 0 {
		t.zero = ev.Time()
	}
	b = t.appendTime(b, ev.Time())
	b = t.appendFrom(append(b, ' '), from)
	b = append(appendCPU(b, ev.CPU()), ' ')
	switch ev.Kind() {
	case perfbuf.KindLost:
		b = fmt.Appendf(b, " LOST  %s", plural(ev.Lost(), "event"))
		if ev.After() != 0 {
			b = t.appendInterval(b, ev)
		}
	case perfbuf.KindCorrupt:
		b = fmt.Appendf(b, " CORRUPT  %v", ev.Err())
	default:
		b = fmt.Appendf(b, "%5d  ", ev.Len())
		if ev.Late() {
			b = append(b, "LATE  "...)
		}
		if fields != nil {
			b = appendFields(b, fields)
		} else {
			b = appendHexdump(b, ev.Bytes(), t.dataAt())
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
func (t *text) appendInterval(b []byte, ev perfbuf.Event) []byte {
	return fmt.Appendf(b, ", within %v before this", time.Duration(ev.Time()-ev.After()).Round(time.Microsecond/10))
}

func (t *text) summary(b []byte, s *summary) []byte {
	b = fmt.Appendf(b, "\n%s and %d lost of %s in %.1f s", plural(s.Events, "event"), s.Lost, s.names, s.Seconds)
	switch s.Mode {
	case exact:
		b = append(b, ", in the order of time.\n"...)
	case slack:
		b = fmt.Appendf(b, ", by time with a slack of %v.\n", time.Duration(s.SlackNS))
	default:
		b = append(b, ", as they lay in the ring buffer.\n"...)
	}
	b = fmt.Appendf(t.appendFrom(b, "MAP"), "%3s %12s %12s %9s %14s  %s\n", "CPU", "EVENTS", "LOST", "CORRUPT", "BYTES", "RING FULL TO")
	for _, c := range s.CPUs {
		b = appendCPU(t.appendFrom(b, c.label), c.CPU)
		b = fmt.Appendf(b, " %12d %12d %9d %14d  %11d%%\n", c.Events, c.Lost, c.Corrupt, c.Bytes, c.HighWater*100/max(1, c.RingBytes))
	}
	if s.Late > 0 {
		b = fmt.Appendf(b, "LATE: %s came too late for their place, by %v at most; a longer -slack makes that rarer, -mode exact rules it out.\n",
			plural(s.Late, "event"), time.Duration(s.MaxLatenessNS))
	}
	if s.Lost > 0 {
		b = fmt.Appendf(b, "LOST: outputs found their ring full. A larger -ring-bytes holds more (it was %d).\n", s.RingBytes)
	}
	if s.Unprinted > 0 {
		b = fmt.Appendf(b, "Not printed: %s that had come by then.\n", plural(s.Unprinted, "event"))
	}
	if s.Displaced > 0 {
		b = fmt.Appendf(b, "The previous reader of the map (%s) receives nothing until it is restarted or takes the map back.\n", plural(uint64(s.Displaced), "CPU"))
	}
	return b
}
