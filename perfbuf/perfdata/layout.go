package perfdata

import "math/bits"

// layout says where records of an attribute have their fields.
type layout struct {
	name       string
	config     uint64
	typ        uint32
	sampleType uint64
	idAll      bool
	first      uint64 // of its ids
	named      bool   // it has ids

	id, time, cpu, raw int // in a sample; id -1: none. raw: or the callchain before it
	callchain          bool
	behind             int // bytes of sample_id behind other records
	idBehind           int // where in these; -1: none
	timeBehind         int
	cpuBehind          int
}

// What has 8 bytes each, in the order of samples and of sample_id.
var (
	inSample = []uint64{sampleIdentifier, sampleIP, sampleTID, sampleTime, sampleAddr, sampleID, sampleStreamID, sampleCPU, samplePeriod}
	inBehind = []uint64{sampleTID, sampleTime, sampleID, sampleStreamID, sampleCPU, sampleIdentifier}
)

// newLayout reads struct perf_event_attr, of 64 bytes at least.
func newLayout(b []byte) *layout {
	l := &layout{typ: native.Uint32(b), config: native.Uint64(b[8:]), sampleType: native.Uint64(b[24:])}
	l.idAll = native.Uint64(b[40:])&sampleIDAll != 0
	l.id, l.time, l.cpu = l.place(inSample, 8)
	l.raw = 8
	for _, bit := range inSample {
		if l.sampleType&bit != 0 {
			l.raw += 8
		}
	}
	l.callchain = l.sampleType&sampleCallchain != 0
	l.idBehind, l.timeBehind, l.cpuBehind = -1, -1, -1
	if l.idAll {
		l.idBehind, l.timeBehind, l.cpuBehind = l.place(inBehind, 0)
		for _, bit := range inBehind {
			if l.sampleType&bit != 0 {
				l.behind += 8
			}
		}
	}
	return l
}

func (l *layout) place(order []uint64, at int) (id, time, cpu int) {
	id, time, cpu = -1, -1, -1
	for _, bit := range order {
		if l.sampleType&bit == 0 {
			continue
		}
		switch bit {
		case sampleIdentifier:
			id = at
		case sampleID:
			if id < 0 {
				id = at
			}
		case sampleTime:
			time = at
		case sampleCPU:
			cpu = at
		}
		at += 8
	}
	return id, time, cpu
}

// lacks is why samples cannot be replayed, empty if they can.
func (l *layout) lacks() string {
	switch {
	case l.sampleType&sampleRaw == 0:
		return "no raw data"
	case l.time < 0:
		return "no time"
	case l.cpu < 0:
		return "no CPU"
	case l.sampleType&sampleRead != 0:
		return "counter values in front of the raw data"
	}
	return ""
}

// mark says that samples are a Recorder's, of ring memory that could not be read.
func (l *layout) mark() bool {
	return l.typ == perfTypeSoftware && l.config == swDummy && l.sampleType == sampleOurs
}

// payload is the raw data of a sample.
func (l *layout) payload(b []byte) ([]byte, bool) {
	at := l.raw
	if l.callchain {
		if at+8 > len(b) {
			return nil, false
		}
		n := native.Uint64(b[at:])
		hi, skip := bits.Mul64(n, 8)
		if hi != 0 || skip > uint64(len(b)-at-8) {
			return nil, false
		}
		at += 8 + int(skip)
	}
	if at+4 > len(b) {
		return nil, false
	}
	n := uint64(native.Uint32(b[at:]))
	if n > uint64(len(b)-at-4) {
		return nil, false
	}
	return b[at+4:][:n], true
}
