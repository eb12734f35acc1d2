package raw

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// View is memory in which records lie in one piece: a ring as far as its edge, a copy of a part of one, or
// one record alone. An Event is a view and a place in it, so what differs between these is in the view, and
// no accessor of an Event has a branch for it.
type View struct {
	base unsafe.Pointer // the view's memory: size bytes, aligned to 8
	size uint64

	// How to find samples by their first 8 bytes as one word: these bits have a value, and the record is as large as the word, shifted,
	// plus round, has these bits. They lie here and not in a struct as the compiler counts each dot against inlining.
	bits, want, shift, round, sizes uint64
	length                          uint64 // where in a sample the u32 length of its payload is
	body                            uint64 // 4 bytes before a sample's payload. In a perf ring raw_size is there: at 8, or 16 behind a time
	least                           uint64 // payload bytes that a sample must have to lie in this view: its time or CPU may be among them

	// A record's time is timeAt bytes behind times, and behind the record's position as far as timeMask lets
	// that through: in the record, in its payload, or, with a mask of 0, one word for the whole view.
	times    unsafe.Pointer
	timeAt   uint64
	timeMask uint64
	// And so the CPU, an int32.
	cpus    unsafe.Pointer
	cpuAt   uint64
	cpuMask uint64

	kind Kind
	odd  *Odd  // of what is no sample
	of   *Ring // whose events these are; nil: nobody's
}

// Odd is what an event that is no sample says. It needs no memory of a ring.
type Odd struct {
	Kind  Kind
	CPU   int    // -1: none
	Fault Fault  // of Corrupt: why
	Lost  uint64 // of Lost: how many
	After uint64 // of Lost: outputs failed after this time
	Off   uint64 // of Corrupt: where it begins, a free-running count of bytes
	Size  uint64 // of Corrupt: how many bytes
	Time  uint64

	Counted bool // of Lost: programs have counted it. It says where it was, as no place in a ring does
}

var (
	noOdd  Odd
	noTime uint64                                                                                                           // and no CPU
	noView = View{base: unsafe.Pointer(&noOdd), times: unsafe.Pointer(&noTime), cpus: unsafe.Pointer(&noTime), odd: &noOdd} // of the zero Event
)

// newView describes memory, with times where the layout has them. All of it is of one CPU.
func newView(base unsafe.Pointer, size uint64, layout Layout, of *Ring) View {
	v := View{base: base, size: size, length: 8, body: 8, times: unsafe.Pointer(&noTime), cpus: unsafe.Pointer(&of.cpu), kind: Sample, odd: &noOdd, of: of}
	v.bits, v.want, v.shift, v.sizes = perfBits, perfWant, perfShift, 0xffff
	switch layout {
	case LayoutRawTime:
		v.length, v.body, v.times, v.timeAt, v.timeMask = 16, 16, base, 8, posBits
	case LayoutRingBuf:
		v.bits, v.want, v.shift, v.round, v.sizes = ringBufBits, 0, ringBufShift, ringBufHeader+7, math.MaxUint32&^7
		v.length, v.body = 0, ringBufHeader-4
	}
	return v
}

// fields is the view whose times and CPUs are at these offsets of the payloads, as far as they lie in the first n
// bytes. It has no samples that are too short for that.
func (v View) fields(timeAt, cpuAt int, n uint64) View {
	if timeAt >= 0 && uint64(timeAt)+8 <= n {
		v.times, v.timeAt, v.timeMask = v.base, v.body+4+uint64(timeAt), posBits
		v.least = uint64(timeAt) + 8
	}
	if cpuAt >= 0 && uint64(cpuAt)+4 <= n {
		v.cpus, v.cpuAt, v.cpuMask = v.base, v.body+4+uint64(cpuAt), posBits
		v.least = max(v.least, uint64(cpuAt)+4)
	}
	return v
}

// on is the view of a copy of some of this view's memory.
func (v View) on(words []uint64) View {
	base := unsafe.Pointer(unsafe.SliceData(words))
	if v.times == v.base {
		v.times = base
	}
	if v.cpus == v.base {
		v.cpus = base
	}
	v.base, v.size = base, 8*uint64(len(words))
	return v
}

// Event is one record in its place. Word has 32 bits of the payload's length, 29 of the record's position in
// the view, and 3 of flags. The length was checked against the record and the view when the event was made,
// and is not read again: memory that changes underneath changes bytes, never bounds. The zero Event is empty.
type Event struct {
	View *View
	Word uint64
}

const (
	posBits = 1<<32 - 8

	flagLate = 1
)

// view is the event's, with one for the zero Event. It compiles to a conditional move.
func (e Event) view() *View {
	v := e.View
	if v == nil {
		v = &noView
	}
	return v
}

// Bytes is the payload: with up to 7 bytes of padding in a perf ring, of the exact length in a BPF ring buffer.
func (e Event) Bytes() []byte {
	v := e.view()
	// Invariant of Word: so many bytes lie in the view's memory, from the payload of the record at this position on.
	return unsafe.Slice((*byte)(unsafe.Add(v.base, e.Word&posBits+v.body+4)), e.Word>>32)
}

// Len is the length of Bytes.
func (e Event) Len() int { return int(e.Word >> 32) }

// Time is in ns, 0 if there is none.
func (e Event) Time() uint64 {
	v := e.view()
	// Invariant: the view has 8 bytes there, which need not be aligned to 8 in a payload.
	return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(v.times, e.Word&v.timeMask+v.timeAt))[:])
}

// Source is what Ring.SetSource has said.
func (e Event) Source() any {
	if r := e.view().of; r != nil {
		return r.source
	}
	return nil
}

// Kind of the event, 0 of the zero Event.
func (e Event) Kind() Kind { return e.view().kind }

// CPU is the number of the ring's CPU, or what the payload says.
func (e Event) CPU() int {
	v := e.view()
	// Invariant: the view has 4 bytes there, which need not be aligned to 4 in a payload.
	return int(int32(binary.NativeEndian.Uint32((*[4]byte)(unsafe.Add(v.cpus, e.Word&v.cpuMask+v.cpuAt))[:])))
}

// Late says that AsLate made the event.
func (e Event) Late() bool { return e.Word&flagLate != 0 }

// AsLate is the same event, marked as late.
func (e Event) AsLate() Event { return Event{e.View, e.Word | flagLate} }

// Odd is what an event that is no sample says, and zero for a sample.
func (e Event) Odd() *Odd { return e.view().odd }
