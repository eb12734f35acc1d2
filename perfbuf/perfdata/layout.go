package perfdata

import "math/bits"

// layout says where records of an attribute have their fields.
type layout struct {
	name       string
	config     uint64
	typ        uint32
	sampleType uint64
	id         uint64 // the first of its ids
	named      bool   // it has ids

	sample fields // of samples, up to the callchain or the raw data
	behind fields // of sample_id, at the end of other records
}

// fields has the offsets of a record's fields, -1 where missing, and the size of all.
type fields struct{ id, time, cpu, size int }

// The fields of 8 bytes, in the order of samples and of sample_id.
var (
	inSample = []uint64{sampleIdentifier, sampleIP, sampleTID, sampleTime, sampleAddr, sampleID, sampleStreamID, sampleCPU, samplePeriod}
	inBehind = []uint64{sampleTID, sampleTime, sampleID, sampleStreamID, sampleCPU, sampleIdentifier}
)

// newLayout reads struct perf_event_attr, of at least 64 bytes.
func newLayout(b []byte) *layout {
	l := &layout{typ: native.Uint32(b), config: native.Uint64(b[8:]), sampleType: native.Uint64(b[24:])}
	behind := inBehind
	if native.Uint64(b[40:])&sampleIDAll == 0 {
		behind = nil
	}
	l.sample, l.behind = arrange(inSample, l.sampleType, 8), arrange(behind, l.sampleType, 0)
	return l
}

// arrange lays out the fields that a sample_type has, from an offset on.
func arrange(order []uint64, sampleType uint64, from int) fields {
	f := fields{-1, -1, -1, from}
	for _, bit := range order {
		if sampleType&bit == 0 {
			continue
		}
		switch at := f.size; {
		case bit == sampleIdentifier, bit == sampleID && f.id < 0:
			f.id = at
		case bit == sampleTime:
			f.time = at
		case bit == sampleCPU:
			f.cpu = at
		}
		f.size += 8
	}
	return f
}

// lacks is why samples cannot be replayed, empty if they can.
func (l *layout) lacks() string {
	switch {
	case l.sampleType&sampleRaw == 0:
		return "no raw data"
	case l.sample.time < 0:
		return "no time"
	case l.sample.cpu < 0:
		return "no CPU"
	case l.sampleType&sampleRead != 0:
		return "counter values in front of the raw data"
	}
	return ""
}

// mark reports whether samples are a Recorder's, of ring memory that could not be read.
func (l *layout) mark() bool {
	return l.typ == perfTypeSoftware && l.config == swDummy && l.sampleType == sampleOurs
}

// payload is the raw data of a sample, which has the fields before it.
func (l *layout) payload(b []byte) ([]byte, bool) {
	b = b[l.sample.size:]
	if l.sampleType&sampleCallchain != 0 {
		if len(b) < 8 {
			return nil, false
		}
		hi, skip := bits.Mul64(native.Uint64(b), 8)
		if b = b[8:]; hi != 0 || skip > uint64(len(b)) {
			return nil, false
		}
		b = b[skip:]
	}
	if len(b) < 4 {
		return nil, false
	}
	n := uint64(native.Uint32(b))
	if b = b[4:]; n > uint64(len(b)) {
		return nil, false
	}
	return b[:n], true
}
