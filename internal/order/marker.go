package order

import (
	"math"
	"time"
)

// A marker says up to when the stream is complete. It is due at the end of a round that has made the stream
// complete up to the time of a call, or, with FlushEvery, up to flushAt.

// Passed reports whether a marker for a call at this time is due. No event before a marker is later than it.
func (s *Stream) Passed(time uint64) bool {
	if !s.drained {
		time = max(time, s.merger.Last())
	}
	return time <= s.Complete() && s.Earliest() > time
}

// MarkerTime is the time of a marker that is due. At the end of a drain, the last that was delivered may be the answer of the
// kernel on losses, which is later than the wait for programs. Nothing comes any more then.
func (s *Stream) MarkerTime() uint64 {
	if s.drained {
		return max(s.Complete(), s.merger.Last())
	}
	return s.Complete()
}

// MarkerDue reports whether a marker is due without a call.
func (s *Stream) MarkerDue() bool { return s.opts.FlushEvery > 0 && s.Passed(s.flushAt) }

// Marked says that a marker is delivered, which puts off the next one without a call.
func (s *Stream) Marked() { s.startInterval(s.Complete()) }

func (s *Stream) startInterval(from uint64) {
	const most = 1 << 61 // 73 years: sums do not overflow
	s.flushAt = from + min(uint64(s.opts.FlushEvery), most)
}

// marker returns up to what time the stream has to be complete for the next marker: Never if none is asked for, and
// it is too early for one without a call. flush is as for Next.
func (s *Stream) marker(flush uint64) uint64 {
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
	until := time.Duration(min(s.markerTurn()-s.scanned, math.MaxInt64))
	if limit == 0 {
		return until
	}
	return min(limit, until)
}
