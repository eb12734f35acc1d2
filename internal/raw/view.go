package raw

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// View is memory with contiguous records: a ring up to its edge, a copy of a part of one, or one
// record alone. An Event is a view and a position in it. All differences are in the view, so no
// accessor of an Event branches on them.
type View struct {
	base unsafe.Pointer // the view's memory: size bytes, aligned to 8
	size uint64

	// A sample's first 8 bytes, as one word, have these bits equal to want. Its size is the sizes
	// bits of the word, shifted, plus round. They are no struct of their own, as the compiler
	// counts each dot against inlining.
	bits, want, shift, round, sizes uint64
	length                          uint64 // offset in a sample of its payload's u32 length
	body                            uint64 // 4 bytes before the payload: at raw_size in a perf ring
	least                           uint64 // least payload length of samples, so that fields fit

	// A record's time is timeAt bytes after times, plus its position masked by timeMask. So it lies
	// in the record, in its payload, or, with a mask of 0, in one word for the whole view.
	times    unsafe.Pointer
	timeAt   uint64
	timeMask uint64
	// The CPU, an int32, likewise.
	cpus    unsafe.Pointer
	cpuAt   uint64
	cpuMask uint64

	kind Kind
	odd  *Odd  // of a non-sample
	of   *Ring // the events' ring; nil: none
}

// Odd has the fields of an event that is not a sample. It needs no memory of a ring.
type Odd struct {
	Kind  Kind
	CPU   int    // -1: none
	Lane  int    // of Shed, and of Lost if programs have counted it
	Fault Fault  // of Corrupt: why
	Lost  uint64 // of Lost and Shed: how many
	After uint64 // of Lost and Shed: outputs failed after this time
	Off   uint64 // of Corrupt: where it begins, a free-running count of bytes
	Size  uint64 // of Corrupt: how many bytes
	Time  uint64

	// Of Lost: programs have counted it, as they do each Shed, or the recording has: no place in a
	// ring says where it was.
	Counted bool
	Why     string // of such a loss: a recording's reason; empty: the ring was full
}

var (
	noOdd Odd
	// Also stands for no CPU. noView is that of the zero Event.
	noTime uint64
	noView = View{base: unsafe.Pointer(&noOdd), times: unsafe.Pointer(&noTime), cpus: unsafe.Pointer(&noTime), odd: &noOdd}
)

// newView describes memory of one CPU, with times where the layout has them.
func newView(base unsafe.Pointer, size uint64, layout Layout, of *Ring) View {
	v := View{base: base, size: size, length: 8, body: 8, times: unsafe.Pointer(&noTime), cpus: unsafe.Pointer(&of.cpu), kind: Sample, odd: &noOdd, of: of}
	v.bits, v.want, v.shift, v.sizes = perfBits, perfWant, perfShift, 0xffff
	switch layout {
	case LayoutRawTime:
		v.length, v.body, v.times, v.timeAt, v.timeMask = 16, 16, base, 8, posBits
	case LayoutRawTimeCPU:
		v.length, v.body, v.times, v.timeAt, v.timeMask = 24, 24, base, 8, posBits
		v.cpus, v.cpuAt, v.cpuMask = base, 16, posBits
	case LayoutRingBuf:
		v.bits, v.want, v.shift, v.round, v.sizes = ringBufBits, 0, ringBufShift, ringBufHeader+7, math.MaxUint32&^7
		v.length, v.body = 0, ringBufHeader-4
	}
	return v
}

// fields returns the view with times and CPUs at these offsets of the payloads, if they lie in the
// first n bytes. It has no samples that are too short for them.
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

// on returns the view of a copy of some of this view's memory.
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

// Event is one record in a view. word has 32 bits of the payload's length, 29 of its position in
// the view, and 3 of flags. The length was checked against record and view when the event was made,
// and is not read again. So memory that changes underneath changes bytes, never bounds. The zero
// Event is empty.
type Event struct {
	View *View
	word uint64
}

const (
	posBits = 1<<32 - 8

	flagLate = 1
)

// view returns the event's view, or noView. It compiles to a conditional move.
func (e Event) view() *View {
	v := e.View
	if v == nil {
		v = &noView
	}
	return v
}

// Bytes returns the payload: with up to 7 bytes of padding in a perf ring, exact in a BPF ring
// buffer.
func (e Event) Bytes() []byte {
	v := e.view()
	// Invariant of word: the view's memory has that many bytes from the payload of this record on.
	return unsafe.Slice((*byte)(unsafe.Add(v.base, e.word&posBits+v.body+4)), e.word>>32)
}

// Len returns the length of Bytes.
func (e Event) Len() int { return int(e.word >> 32) }

// Time returns the time in ns, or 0 if there is none.
func (e Event) Time() uint64 {
	v := e.view()
	// Invariant: the view has 8 bytes there, which need not be aligned to 8 in a payload.
	return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(v.times, e.word&v.timeMask+v.timeAt))[:])
}

// Source returns the argument of Ring.SetSource.
func (e Event) Source() string {
	if r := e.view().of; r != nil {
		return r.source
	}
	return ""
}

// Kind returns the kind of the event, or 0 for the zero Event.
func (e Event) Kind() Kind { return e.view().kind }

// CPU returns the number of the ring's CPU, or the one in the payload.
func (e Event) CPU() int {
	v := e.view()
	// Invariant: the view has 4 bytes there, which need not be aligned to 4 in a payload.
	return int(int32(binary.NativeEndian.Uint32((*[4]byte)(unsafe.Add(v.cpus, e.word&v.cpuMask+v.cpuAt))[:])))
}

// Late reports whether AsLate made the event.
func (e Event) Late() bool { return e.word&flagLate != 0 }

// AsLate returns the same event, marked as late.
func (e Event) AsLate() Event { return Event{e.View, e.word | flagLate} }

// Odd returns the fields of a non-sample, or zero for a sample.
func (e Event) Odd() *Odd { return e.view().odd }
