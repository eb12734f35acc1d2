package fleet

import (
	"encoding/binary"
	"math"

	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// SpoolFull is the reason of a gap of what the spool had no room for.
const SpoolFull = "spool full"

// Types of records.
const (
	typeLost        = 2
	typeSample      = 9
	typeLostSamples = 13
)

// pipeHeader is struct perf_pipe_file_header.
const pipeHeader = 16

// corruptID is the id of a Recorder's samples that are none, but say that ring memory could not be
// read: its last.
func corruptID(head []byte) uint64 {
	l := perfdata.NewLive("")
	_ = l.Head(head) // a Recorder's own
	return uint64(len(l.Events())) + 1
}

// firstTime is the time of the first sample in records, which may be anybody's.
func firstTime(b []byte) uint64 {
	for len(b) >= 32 {
		size := int(binary.NativeEndian.Uint16(b[6:]))
		if binary.NativeEndian.Uint32(b) == typeSample {
			return binary.NativeEndian.Uint64(b[24:])
		}
		if size < 8 || size > len(b) {
			break
		}
		b = b[size:]
	}
	return math.MaxUint64
}

// lose gives up the open message's events, and keeps its losses.
func (s *Sink) lose() {
	word := binary.NativeEndian.Uint64
	for b, n := s.records, 0; len(b) > 0; b = b[n:] {
		n = int(binary.NativeEndian.Uint16(b[6:]))
		at, count := 24, uint64(0) // where its time is; how many are lost in it
		event := false
		switch typ := binary.NativeEndian.Uint32(b); {
		case typ == typeSample && word(b[8:]) != s.corrupt:
			s.lost++
			event, count = true, 1
		case typ == typeSample:
		case typ == typeLost:
			at, count = n-24, word(b[16:])
		case typ == typeLostSamples:
			at, count = n-24, word(b[8:])
		default:
			continue
		}
		s.lostAt = max(s.lostAt, word(b[at:]))
		if event || len(s.carry)+n > mostCarry { // of losses, the sum stays right, the reason does not
			s.untold += count
		} else {
			s.carry = append(s.carry, b[:n]...)
		}
	}
	s.records = s.records[:0]
}
