package demo

import (
	"fmt"
	"time"
)

func (t *text) summary(b []byte, s *summary) []byte {
	b = fmt.Appendf(b, "\n%s from %s in %.1f s", count(int(s.Events), "event"), t.countCPUs(s.CPUs), s.elapsed.Seconds())
	for i, c := range s.PerCPU {
		if s.CPUs > 8 {
			break // -json has them
		}
		b = fmt.Appendf(b, "%s %d on CPU %d", []string{":", ","}[min(i, 1)], c.Events, c.CPU)
	}
	b = append(b, ".\n"...)
	b = t.appendOrder(b, s)
	if s.Overtaken > 0 {
		b = fmt.Appendf(b, "Read one ring after the other, %d of them (%.0f %%) would have come after a later one.\n",
			s.Overtaken, 100*float64(s.Overtaken)/float64(s.Events))
	}
	if s.Events > 0 {
		b = fmt.Appendf(b, "From event to line: %s (p50), %s (p99).\n", span(int64(s.LatencyP50NS)), span(int64(s.LatencyP99NS)))
	}
	return t.appendLosses(b, s)
}

// appendOrder says in which order events came, and how sure that is.
func (t *text) appendOrder(b []byte, s *summary) []byte {
	switch {
	case s.OutOfOrder > 0:
		b = t.appendRed(b, "OUT OF ORDER: %d of them came after a later one, without a word.", s.OutOfOrder)
	case s.Late > 0 && s.Mode == exact:
		b = t.appendRed(b, "LATE: %d of them came after a later one, by %s at most. Exact mode rules that out.", s.Late, span(int64(s.LatenessNS)))
	case s.Late > 0:
		b = fmt.Appendf(b, "Mode slack: in the order of time, but for %d that came too late for it and are marked LATE: by %s at most.\n"+
			"A longer -slack makes that rarer (it was %v); -mode exact rules it out.\n", s.Late, span(int64(s.LatenessNS)), time.Duration(s.SlackNS))
	case s.Mode == exact:
		b = append(b, "Mode exact: all in the order of time, none late.\n"...)
	default:
		b = fmt.Appendf(b, "Mode slack: all in the order of time, none late. %v happened to be enough.\n", time.Duration(s.SlackNS))
	}
	if p := s.Barriers; p != nil {
		b = fmt.Appendf(b, "Barriers: %d (%s)", p.Count, p.Provider)
		if p.Count > 0 {
			b = fmt.Appendf(b, ", each in %s (p50), %s (p99), %s (max)", span(p.P50NS), span(p.P99NS), span(p.MaxNS))
		}
		if p.Failed > 0 {
			b = fmt.Appendf(b, "; %d more failed", p.Failed)
		}
		b = append(b, ".\n"...)
	}
	return b
}

// appendLosses says what is missing, and that this is all.
func (t *text) appendLosses(b []byte, s *summary) []byte {
	if s.Lost > 0 {
		b = t.appendRed(b, "LOST: %s found their ring full. A larger -ring-bytes holds more (it was %d).", count(int(s.Lost), "event"), t.cfg.ringBytes)
	} else {
		b = fmt.Appendf(b, "None lost: the fullest ring was %.1f %% full at most.\n", s.RingUse)
	}
	if s.SpilledBytes > 0 {
		b = fmt.Appendf(b, "%s of waiting events were copied out of rings that filled up.\n", count(int(s.SpilledBytes), "byte"))
	}
	if s.Corrupt > 0 {
		b = fmt.Appendf(b, "Corrupt memory was skipped: %s.\n", count(int(s.Corrupt), "time"))
	}
	b = fmt.Appendf(b, "%s = %d printed + %d lost", count(int(s.Outputs), "output"), s.Samples, s.Lost)
	if s.Unread > 0 {
		b = fmt.Appendf(b, " + %d left unread at the end", s.Unread)
	}
	return append(b, ".\n"...)
}

func (t *text) appendRed(b []byte, format string, args ...any) []byte {
	b = fmt.Appendf(t.on(b, red), format, args...)
	return append(t.off(b), '\n')
}
