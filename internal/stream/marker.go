package stream

import (
	"math"
	"time"
)

// A marker carries the time up to which the stream is complete. It is due at the end of a round
// that has completed the stream up to the time of a call or, with FlushEvery, up to flushAt.

// passed reports whether a marker for a call at this time is due. No event before a marker is later
// than the marker, and none up to it is held. A round begun with a waited time is the last to
// deliver events, so it need not be complete up to those it has delivered.
func (s *Ordered) passed(call uint64) bool {
	time := max(call, s.merger.last)
	return (call <= s.waited || time <= s.Complete()) && s.Earliest() > time
}

// markerTime returns the time of a marker that is due: normally the time up to which the stream is
// complete. After a round with a waited time it may be later.
func (s *Ordered) markerTime(call uint64) uint64 {
	return max(call, s.Complete(), s.merger.last)
}

// markerDue reports whether a marker is due without a call.
func (s *Ordered) markerDue() bool { return s.opts.FlushEvery > 0 && s.passed(s.flushAt) }

// noteMarker notes a delivered marker, which puts off the next one without a call.
func (s *Ordered) noteMarker() { s.startInterval(s.Complete()) }

func (s *Ordered) startInterval(from uint64) {
	const most = 1 << 61 // 73 years: sums do not overflow
	s.flushAt = from + min(uint64(s.opts.FlushEvery), most)
}

// marker returns the time up to which the stream must be complete for the next marker. It returns
// never without a call, while it is too early for a marker of FlushEvery.
func (s *Ordered) marker() uint64 {
	flush := s.asked()
	if s.opts.FlushEvery > 0 && s.markerTurn() <= s.scanned {
		flush = min(flush, s.flushAt)
	}
	if flush == never {
		return never
	}
	return max(flush, s.merger.last)
}

// markerTurn returns when to wake for the next marker without a call: not before a round, or a
// barrier, covers its time.
func (s *Ordered) markerTurn() uint64 { return s.flushAt + s.pacing.delay() }

// untilMarker shortens a wait that holds no events to the turn of the next marker without a call. A
// limit of 0 means none.
func (s *Ordered) untilMarker(limit time.Duration) time.Duration {
	if s.opts.FlushEvery == 0 {
		return limit
	}
	return sooner(limit, time.Duration(min(s.markerTurn()-s.scanned, math.MaxInt64)))
}

// asked returns the time of the first unanswered flush, never if there is none.
func (s *Ordered) asked() uint64 {
	first := uint64(never)
	for flushes := range s.calls {
		if f := flushes.look(); f != nil {
			first = min(first, f.Time)
		}
	}
	return first
}

// calls yields the stream's own calls, which a marker answers, and those of each source, which an
// error answers.
func (s *Ordered) calls(yield func(*Flushes) bool) {
	more := yield(&s.Flushes)
	for i := 0; i < len(s.sources) && more; i++ {
		more = yield(&s.sources[i].Rings.failures)
	}
}
