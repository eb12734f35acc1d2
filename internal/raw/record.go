package raw

import (
	"bytes"
	"unsafe"
)

// Record types of include/uapi/linux/perf_event.h.
const (
	typeLost   = 2 // PERF_RECORD_LOST
	typeSample = 9 // PERF_RECORD_SAMPLE
)

// header is struct perf_event_header.
type header struct {
	typ  uint32
	misc uint16
	size uint16
}

// Kind is the kind of a Record.
type Kind uint8

const (
	// Sample has the bytes of one bpf_perf_event_output.
	Sample Kind = iota + 1
	// Lost counts the outputs that failed for want of room since the previous record.
	Lost
	// Corrupt is a stretch of unreadable bytes up to the head, not a record. Record.Fault says why.
	Corrupt
	// Flushed is never in a ring: readers make such events.
	Flushed
	// Shed counts outputs that programs have left out to keep room for others. Only a recording has
	// such records.
	Shed
	// Unknown is a valid record of a type that this package does not read.
	Unknown
	// Busy is a record of a BPF ring buffer that a program has reserved and not committed yet.
	Busy
	// Discarded is a record of a BPF ring buffer that a program has given up.
	Discarded
)

// Fault is the reason why a record is corrupt.
type Fault uint8

const (
	// FaultNone is the fault of an intact record.
	FaultNone Fault = iota
	// FaultHead is a head more than the ring's size ahead of the record.
	FaultHead
	// FaultZero is a header.size of 0.
	FaultZero
	// FaultSmall is a header.size below the header's own 8 bytes.
	FaultSmall
	// FaultUnaligned is a header.size that is not a multiple of 8.
	FaultUnaligned
	// FaultBeyondHead is a record that goes past the head.
	FaultBeyondHead
	// FaultShort is a record too short for the fields of its type.
	FaultShort
	// FaultRawSize is a sample whose payload goes past the record.
	FaultRawSize
	// FaultTime is a time that no clock can have shown yet. Parse knows no clocks; packages that
	// order records do.
	FaultTime
	// FaultChanged is a record that differs from an earlier check.
	FaultChanged
)

func (f Fault) String() string {
	return [...]string{
		FaultNone:       "none",
		FaultHead:       "data_head is further ahead than the ring's size",
		FaultZero:       "header.size is 0",
		FaultSmall:      "header.size is below 8",
		FaultUnaligned:  "header.size is not a multiple of 8",
		FaultBeyondHead: "record goes past data_head",
		FaultShort:      "record is too short for its type",
		FaultRawSize:    "payload goes past the record",
		FaultTime:       "time is in the future",
		FaultChanged:    "record was overwritten while the stream held it",
	}[f]
}

// Record has the header and fields of a record. Fields that do not belong to its Kind have no
// meaning.
type Record struct {
	Kind  Kind
	Fault Fault  // of Corrupt: why
	Len   uint32 // payload bytes of a Sample, with padding in a perf ring; 0 of others
	Off   uint64 // where it begins, a free-running count of bytes
	Size  uint64 // bytes to the next record
	Time  uint64 // ns of the event's clock, not the payload's; 0 if the layout has none
	Lost  uint64 // how many a Lost record counts; may be 0
}

// Parse reads the record at offset off into rec. head was loaded before, off < head, and off is a
// multiple of 8. It always sets a Size that advances the caller: an invalid record becomes a
// Corrupt one up to head, where the kernel's next record is sure to begin.
//
// It fills in rec field by field: a Record returned by value would be copied with wide loads right
// behind narrow stores. That stalls the processor for longer than all the rest takes.
func (r *Ring) Parse(off, head uint64, rec *Record) {
	if r.layout == LayoutRingBuf {
		r.parseRingBuf(off, head, rec)
		return
	}
	left := head - off
	// Invariant: off is a multiple of 8 and so is the ring's size, so 8 bytes at any record's off,
	// off+8, off+16 or off+24, masked, lie within the ring and are aligned.
	hdr := (*header)(unsafe.Add(r.data, off&r.mask))
	size := uint64(hdr.size)
	rec.Off, rec.Size = off, size
	if size < 8 || size&7 != 0 || size > left || left > r.mask+1 {
		rec.corrupt(sizeFault(size, left, r.mask+1), left)
		return
	}
	switch hdr.typ {
	case typeSample:
		at := r.rawSize
		if size < at+8 {
			rec.corrupt(FaultShort, left)
			return
		}
		n := *(*uint32)(unsafe.Add(r.data, (off+at)&r.mask))
		if uint64(n) > size-at-4 {
			rec.corrupt(FaultRawSize, left)
			return
		}
		rec.Time = 0
		if at >= 16 {
			rec.Time = *(*uint64)(unsafe.Add(r.data, (off+8)&r.mask))
		}
		rec.Kind, rec.Len = Sample, n
	case typeLost:
		if size < 24 { // header, id, lost
			rec.corrupt(FaultShort, left)
			return
		}
		rec.Time = 0
		if r.rawSize >= 16 && size >= 32 { // sample_id_all appends the time
			rec.Time = *(*uint64)(unsafe.Add(r.data, (off+24)&r.mask))
		}
		rec.Kind, rec.Len, rec.Lost = Lost, 0, *(*uint64)(unsafe.Add(r.data, (off+16)&r.mask))
	default:
		rec.Kind, rec.Len, rec.Time = Unknown, 0, 0
	}
}

// SizeCounted is the size of a recording's record for what is lost elsewhere than in a ring, or
// shed: time after which it happened, number, time, CPU, lane. A reason may follow, padded with
// zeros. The kernel's records have 32 bytes at most.
const SizeCounted = 40

// CountedShed is set in the lane of such a record if it was shed.
const CountedShed = 1 << 31

// Counted fills in o and returns true if rec is such a record.
func (r *Ring) Counted(rec *Record, o *Odd) bool {
	if rec.Size < SizeCounted {
		return false
	}
	// Invariant: as in Parse, the ring has 8 aligned bytes at off+8 and off+32, masked.
	o.After = min(*(*uint64)(unsafe.Add(r.data, (rec.Off+8)&r.mask)), rec.Time)
	o.CPU = int(*(*int32)(unsafe.Add(r.data, (rec.Off+32)&r.mask)))
	lane := *(*uint32)(unsafe.Add(r.data, (rec.Off+32)&r.mask+4))
	o.Kind, o.Lane = Lost, int(lane&^CountedShed)
	if lane&CountedShed != 0 {
		o.Kind = Shed
	}
	o.Lost, o.Time, o.Counted = rec.Lost, rec.Time, true
	if n := rec.Size - SizeCounted; n > 0 {
		why := make([]byte, n)
		r.Copy(why, rec.Off+SizeCounted)
		o.Why = string(bytes.TrimRight(why, "\x00"))
	}
	return true
}

// corrupt makes rec a Corrupt one of all bytes up to the head, left bytes.
func (rec *Record) corrupt(f Fault, left uint64) {
	rec.Kind, rec.Fault, rec.Len, rec.Size, rec.Time = Corrupt, f, 0, left, 0
}

func sizeFault(size, left, ring uint64) Fault {
	switch {
	case left > ring:
		return FaultHead
	case size == 0:
		return FaultZero
	case size < 8:
		return FaultSmall
	case size&7 != 0:
		return FaultUnaligned
	default:
		return FaultBeyondHead
	}
}
