package perfbuf

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/raw"
)

// Kind tells what an [Event] is.
type Kind uint8

const (
	// KindSample is a payload that a program handed to bpf_perf_event_output.
	KindSample = Kind(raw.Sample)
	// KindLost says that outputs on a CPU failed because its ring was full.
	KindLost = Kind(raw.Lost)
	// KindCorrupt says that ring memory could not be read and was skipped.
	KindCorrupt = Kind(raw.Corrupt)
	// KindFlushed answers [Reader.Flush]: all that had been output by the time of the call has been
	// delivered. Its CPU is -1.
	KindFlushed = Kind(raw.Flushed)
)

func (k Kind) String() string {
	switch k {
	case 0:
		return "none" // of the zero Event
	case KindSample:
		return "sample"
	case KindLost:
		return "lost"
	case KindCorrupt:
		return "corrupt"
	case KindFlushed:
		return "flushed"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Event is one event as it lies in a ring, valid until the function that received it returns (or
// until the loop body over an iterator ends): then its bytes belong to the kernel again. The same
// holds for every slice it hands out. Use [Event.Record] to keep one. Building with the tag
// perfbuf_poison finds who keeps one all the same: slices then turn into 0xCC bytes when they die.
// After [Reader.Close] the memory is unmapped, and touching a slice is a fault that cannot be
// recovered from.
//
// The zero Event is empty: its methods return zero values.
//
// An Event is a small value, passed by copy, and is not safe for concurrent use.
type Event struct{ ev raw.Event }

// Kind tells samples from losses and from corrupt memory. A function that only wants samples checks
// it first.
func (e Event) Kind() Kind { return Kind(e.ev.Kind()) }

// CPU is the CPU that the event happened on, -1 for KindFlushed.
func (e Event) CPU() int { return e.ev.CPU() }

// Time is when the event was output, in ns of CLOCK_MONOTONIC (as bpf_ktime_get_ns), taken by the
// kernel as PERF_SAMPLE_TIME, or by the program under [PayloadTime]; 0 where there is neither. A loss
// has the time of the sample that reported it, which is just after, or that of asking the kernel, if
// none did. For KindCorrupt it is the time of an event before, for KindFlushed that of the call, or of
// the event before if that is later.
func (e Event) Time() uint64 { return e.ev.Time() }

// Late reports that an [Ordered] stream had already delivered an event with a later time when this
// one turned up.
func (e Event) Late() bool { return e.ev.Late() }

// Len is the length of Bytes: what the program passed, and 0 to 7 bytes of padding up to the record's end.
// The kernel does not record where the padding begins, and padding bytes are old ring memory.
func (e Event) Len() int { return e.ev.Len() }

// Bytes is the payload of a sample, trailing padding included (see [Event.Len]); it is empty for other kinds. It
// points into the ring and is aligned to 4 bytes; a record that goes over the ring's edge has been copied into one
// piece. See [Event] for its life.
func (e Event) Bytes() []byte { return e.ev.Bytes() }

// Lost is how many outputs the kernel gave up, for KindLost; 0 otherwise.
func (e Event) Lost() uint64 { return e.ev.Odd().Lost }

// After bounds a loss from below: outputs failed after this time and not after [Event.Time], both
// in ns of CLOCK_MONOTONIC. It is the greatest time read from the same ring before, 0 if nothing
// was, and 0 for other kinds.
func (e Event) After() uint64 { return e.ev.Odd().After }

// Err is nil for samples and losses, and a [*CorruptError] for KindCorrupt.
func (e Event) Err() error {
	if e.Kind() != KindCorrupt {
		return nil
	}
	odd := e.ev.Odd()
	return &CorruptError{CPU: e.CPU(), Offset: odd.Off, Skipped: odd.Size, Reason: odd.Fault.String()}
}

// String describes the event on one line, for logs and tests: kind, CPU, time in seconds, and the length, the
// loss or the error. The format may change. It allocates.
func (e Event) String() string {
	s := e.Kind().String()
	switch e.Kind() {
	case 0:
		return s
	case KindFlushed: // of no CPU
	default:
		s += fmt.Sprintf(" cpu=%d", e.CPU())
	}
	if e.Time() != 0 {
		s += " time=" + seconds(e.Time())
	}
	switch e.Kind() {
	case KindSample:
		s += fmt.Sprintf(" len=%d", e.Len())
	case KindLost:
		s += fmt.Sprintf(" lost=%d", e.Lost())
		if e.After() != 0 {
			s += " after=" + seconds(e.After())
		}
	case KindCorrupt:
		s += fmt.Sprintf(" err=%q", e.Err())
	}
	if e.Late() {
		s += " late"
	}
	return s
}

func seconds(ns uint64) string { return fmt.Sprintf("%d.%09ds", ns/1e9, ns%1e9) }
