package tail

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// compact prints a line per event, with a blank between columns: time, map if there are several, CPU, then fields or the payload in
// hexadecimal.
type compact struct{ clock }

func (*compact) header(b []byte) []byte { return b }

func (c *compact) event(b []byte, ev source.Event) []byte {
	b = append(c.appendTime(b, ev.Time()), ' ')
	if ev.From.Label != "" {
		b = append(append(b, cli.Printable(ev.From.Label)...), ' ')
	}
	if ev.CPU() < 0 {
		b = append(b, "- "...)
	} else {
		b = append(strconv.AppendInt(b, int64(ev.CPU()), 10), ' ')
	}
	switch {
	case ev.Kind() == perfbuf.KindLost:
		b = fmt.Appendf(b, "LOST %d", ev.Lost())
	case ev.Kind() == perfbuf.KindShed:
		b = fmt.Appendf(b, "SHED %d LANE %d", ev.Lost(), ev.Lane())
	case ev.Kind() == perfbuf.KindCorrupt:
		b = fmt.Appendf(b, "CORRUPT %v", ev.Err())
	default:
		if ev.Late() {
			b = append(b, "LATE "...)
		}
		if ev.Fields != nil {
			b = ev.Fields.AppendText(b)
		} else {
			b = hex.AppendEncode(b, ev.Bytes())
		}
	}
	return append(b, '\n')
}

func (c *compact) summary(b []byte, s *summary) []byte {
	b = fmt.Appendf(b, "# %s, %d lost, %d late, %.1f s, %s", plural(s.Events, "event"), s.Lost, s.Late, s.Seconds, s.Mode)
	if s.Shed > 0 {
		b = fmt.Appendf(b, ", %d shed", s.Shed)
	}
	if s.Filtered > 0 {
		b = fmt.Appendf(b, ", %d filtered out", s.Filtered)
	}
	if s.Command != nil {
		b = fmt.Appendf(b, ", command: %s", s.Command.Status)
	}
	return append(b, '\n')
}
