package perfdata

import (
	"encoding/binary"
)

// The numbers are those of tools/perf/util/header.h, tools/lib/perf/include/perf/event.h and
// include/uapi/linux/perf_event.h.
const (
	magic      = "PERFILE2"
	headerSize = 104 // struct perf_file_header
	pipeHeader = 16  // struct perf_pipe_file_header
	attrSize   = 112 // PERF_ATTR_SIZE_VER5, the first with a clockid

	dataSizeAt = 48 // of struct perf_file_header: data.size
	featuresAt = 72 // and adds_features

	typeLost          = 2
	typeSample        = 9
	typeLostSamples   = 13
	typeHeaderAttr    = 64 // PERF_RECORD_HEADER_ATTR, the first of perf's own
	typeFinishedRound = 68
	typeEventUpdate   = 78
	typeHeaderFeature = 80
	typeCompressed    = 81
	typeCompressed2   = 83

	perfTypeSoftware = 1
	swDummy          = 9
	swBPFOutput      = 10

	updateName = 2 // PERF_EVENT_UPDATE__NAME

	clockMonotonic = 1

	sampleIDAll = 1 << 18 // of perf_event_attr's bits
	useClockID  = 1 << 25
)

// PERF_SAMPLE_*. A sample has these fields in the order of inSample, then the callchain and the raw
// data.
const (
	sampleIP         = 1 << 0
	sampleTID        = 1 << 1
	sampleTime       = 1 << 2
	sampleAddr       = 1 << 3
	sampleRead       = 1 << 4
	sampleCallchain  = 1 << 5
	sampleID         = 1 << 6
	sampleCPU        = 1 << 7
	samplePeriod     = 1 << 8
	sampleStreamID   = 1 << 9
	sampleRaw        = 1 << 10
	sampleIdentifier = 1 << 16

	sampleOurs = sampleIdentifier | sampleIP | sampleTime | sampleCPU | sampleRaw
)

// Where a sample of a Recorder has its fields.
const (
	idAt      = 8
	ipAt      = 16 // 0: perf script refuses samples without
	timeAt    = 24
	cpuAt     = 32
	rawAt     = 40
	payloadAt = 44

	countedAt = 24 // of a PERF_RECORD_LOST that programs have counted: the time after which it was, and its lane

	mostRecord = 1<<16 - 8 // header.size has 16 bits
)

// MaxSample is the most payload bytes of a sample that perf.data has room for.
const MaxSample = mostRecord - payloadAt

// Numbers of features, HEADER_* of tools/perf/util/header.h.
const (
	featHostname   = 3
	featOSRelease  = 4
	featVersion    = 5
	featArch       = 6
	featNrCPUs     = 7
	featCmdline    = 11
	featEventDesc  = 12
	featSampleTime = 21
	featClockID    = 23
	featBTF        = 26
	featCompressed = 27
	featClockData  = 29
)

var native = binary.NativeEndian

// attr is struct perf_event_attr of an event that a Recorder writes.
func (o Options) attr(config uint64) []byte {
	b := make([]byte, attrSize)
	native.PutUint32(b[0:], perfTypeSoftware)
	native.PutUint32(b[4:], attrSize)
	native.PutUint64(b[8:], config)
	native.PutUint64(b[16:], 1) // sample_period
	native.PutUint64(b[24:], sampleOurs)
	native.PutUint64(b[40:], sampleIDAll|useClockID)
	native.PutUint32(b[92:], o.clock())
	return b
}

// clock is that of the events' times: CLOCK_REALTIME or CLOCK_MONOTONIC.
func (o Options) clock() uint32 {
	if o.WallClock {
		return 0
	}
	return clockMonotonic
}

// putHeader writes struct perf_event_header.
func putHeader(b []byte, typ uint32, size int) {
	native.PutUint32(b[0:], typ)
	native.PutUint16(b[4:], 0)
	native.PutUint16(b[6:], uint16(size))
}

// appendRecord appends a record that has a body of perf's own.
func appendRecord(b []byte, typ uint32, body []byte) []byte {
	var header [8]byte
	putHeader(header[:], typ, 8+len(body))
	return append(append(b, header[:]...), body...)
}
