// Package clock relates a host's events, which have times of CLOCK_MONOTONIC, to the time of day.
package clock

import (
	"math"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// Unknown is the error of a clock that nothing keeps right: the kernel does not say how wrong it
// is, and it may be anything. One that is synchronised is never thought to be wrong by more than 16
// s.
const Unknown = uint64(time.Hour)

// Reading says when a host's clock shows what.
type Reading struct {
	Offset int64  // ns: CLOCK_REALTIME - CLOCK_MONOTONIC
	Error  uint64 // ns: how wrong the sum of Offset and a monotonic time may be, as far as the kernel and the measurement tell
}

// Measure reads the clocks. It takes some microseconds.
func Measure() Reading {
	return measure(
		func() int64 { return int64(perfbuf.Now()) },
		func() int64 { return time.Now().UnixNano() },
		maxError,
	)
}

// brackets is how often the clocks are read: between two readings one may be interrupted, and not
// every time.
const brackets = 16

func measure(monotonic, realtime func() int64, maxError func() uint64) Reading {
	r, width := Reading{}, int64(math.MaxInt64)
	for range brackets {
		before := monotonic()
		wall := realtime()
		after := monotonic()
		if after-before < width {
			width = after - before
			r.Offset = wall - before - width/2
		}
	}
	r.Error = uint64(width+1)/2 + maxError()
	return r
}

// maxError is the kernel's: as the synchronising daemon has set it, growing since.
func maxError() uint64 {
	var t unix.Timex // Modes 0: only reads
	state, err := unix.Adjtimex(&t)
	return known(state, t.Status, t.Maxerror, err)
}

func known(state int, status int32, maxErrorMicros int64, err error) uint64 {
	if err != nil || state == unix.TIME_ERROR || status&unix.STA_UNSYNC != 0 || maxErrorMicros < 0 {
		return Unknown
	}
	return uint64(maxErrorMicros) * 1000
}
