package fleet

import (
	"encoding/binary"
	"math"
)

// SpoolFull is the reason of a gap of what the spool had no room for.
const SpoolFull = "spool full"

// Types of records.
const (
	typeLost        = 2
	typeSample      = 9
	typeLostSamples = 13
	typeHeaderAttr  = 64
)

// pipeHeader is struct perf_pipe_file_header.
const pipeHeader = 16

// whole returns how many bytes of whole records fit into so many. One alone always fits.
func whole(b []byte, room int) (n int) {
	for n < len(b) {
		size := int(binary.NativeEndian.Uint16(b[n+6:]))
		if size < 8 || n+size > len(b) {
			return len(b) // no Recorder writes such
		}
		if n+size > room {
			return n
		}
		n += size
	}
	return n
}

// lastID is the id of the last event that a head has: a Recorder's ids are 1, 2, ...
func lastID(head []byte) (id uint64) {
	for b := head[min(pipeHeader, len(head)):]; len(b) > 0; b = b[whole(b, int(binary.NativeEndian.Uint16(b[6:]))):] {
		if binary.NativeEndian.Uint32(b) == typeHeaderAttr {
			id++
		}
	}
	return id
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
		n = whole(b, int(binary.NativeEndian.Uint16(b[6:])))
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
