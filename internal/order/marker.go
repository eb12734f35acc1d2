package order

import (
	"math"
	"time"

	"github.com/ringfold/ringfold/internal/walk"
)

// A marker says up to when the stream is complete. It is due at the end of a round that has made the stream
// complete up to the time of a call, or, with FlushEvery, up to flushAt.

// Passed reports whether a marker for a call at this time is due. No event before a marker is later than it. A round for
// which somebody has waited is the last that delivers events, so what it has delivered does not put the marker off.
func (s *Stream) Passed(time uint64) bool {
	if time > s.waited {
		time = max(time, s.merger.Last())
		if time > s.Complete() {
			return false
		}
	}
	return s.Earliest() > time
}

// MarkerTime is the time of a marker that is due. It is what is complete, but for a round for which somebody has waited.
func (s *Stream) MarkerTime(call uint64) uint64 { return max(call, s.Complete(), s.merger.Last()) }

// MarkerDue reports whether a marker is due without a call.
func (s *Stream) MarkerDue() bool { return s.opts.FlushEvery > 0 && s.Passed(s.flushAt) }

// Marked says that a marker is delivered, which puts off the next one without a call.
func (s *Stream) Marked() { s.startInterval(s.Complete()) }

func (s *Stream) startInterval(from uint64) {
	const most = 1 << 61 // 73 years: sums do not overflow
	s.flushAt = from + min(uint64(s.opts.FlushEvery), most)
}

// marker returns up to what time the stream has to be complete for the next marker: Never if none is asked for, and
// it is too early for one without a call.
func (s *Stream) marker() uint64 {
	flush := s.asked()
	if s.opts.FlushEvery > 0 && s.markerTurn() <= s.scanned {
		flush = min(flush, s.flushAt)
	}
	if flush == Never {
		return Never
	}
	return max(flush, s.merger.Last())
}

// markerTurn is when to get up for the next marker without a call: not before a round, or a barrier, covers its time.
func (s *Stream) markerTurn() uint64 { return s.flushAt + s.pacing.delay() }

// untilMarker bounds a wait that holds nothing, 0 without limit, by the turn of the next marker without a call.
func (s *Stream) untilMarker(limit time.Duration) time.Duration {
	if s.opts.FlushEvery == 0 {
		return limit
	}
	return sooner(limit, time.Duration(min(s.markerTurn()-s.scanned, math.MaxInt64)))
}

// asked is the time of the first flush that has not been answered, Never if there is none.
func (s *Stream) asked() uint64 {
	first := uint64(Never)
	for flushes := range s.calls {
		if f := flushes.Look(); f != nil {
			first = min(first, f.Time)
		}
	}
	return first
}

// calls are those of the stream, which a marker answers, and of each source, which an error does.
func (s *Stream) calls(yield func(*walk.Flushes) bool) {
	more := yield(&s.Flushes)
	for i := 0; i < len(s.sources) && more; i++ {
		more = yield(&s.sources[i].Rings.Failures)
	}
}
