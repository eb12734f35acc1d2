package perfbuf

import (
	"fmt"
	"log/slog"

	"github.com/ringfold/ringfold/internal/raw"
)

// Kind is the kind of an [Event]. The zero Event has the zero Kind.
type Kind uint8

const (
	// KindSample is a payload that a BPF program output with bpf_perf_event_output.
	KindSample Kind = iota + 1
	// KindLost counts outputs on a CPU that failed because its ring was full: see [Event.Lost]. In
	// a recording it may also be what was lost on the way to it: see [Event.Reason].
	KindLost
	// KindCorrupt is ring memory that could not be read and was skipped: see [Event.Err].
	KindCorrupt
	// KindFlushed answers [Stream.Flush]: everything output before the call has been delivered. In
	// a [Stream] its time says up to when the stream is complete. See [StreamOptions].FlushEvery.
	KindFlushed
	// KindShed counts outputs that programs have left out, to keep room for those in other lanes:
	// see [Event.Lost] and [Event.Lane].
	KindShed
)

// This compiles only if the kinds equal those of package raw.
var _ = [1]struct{}{}[KindSample-Kind(raw.Sample)|KindLost-Kind(raw.Lost)|KindCorrupt-Kind(raw.Corrupt)|KindFlushed-Kind(raw.Flushed)|KindShed-Kind(raw.Shed)]

// String returns "sample", "lost", "corrupt", "flushed", "shed", or "none" for the zero Kind.
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
	case KindShed:
		return "shed"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Event is one event, read in place: it points into the ring.
//
// An Event and the slices that it returns are valid until the function that received the Event
// returns, or until the loop body ends. Then the kernel may overwrite the memory. To keep an event,
// use [Event.Record]. The build tag perfbuf_poison catches use after return by overwriting expired
// events with 0xCC. After [Reader.Close] the memory is unmapped as soon as the last call that reads
// it has returned: a slice kept beyond that crashes the program when touched.
//
// The zero Event is empty, and its methods return zero values. An Event is two words: pass it by
// value. It is not safe for concurrent use.
type Event struct{ ev raw.Event }

// Kind returns the event's kind. Check it first: losses and corrupt memory arrive like samples.
func (e Event) Kind() Kind { return Kind(e.ev.Kind()) }

// CPU returns the CPU that the event was output on, -1 for [KindFlushed].
func (e Event) CPU() int { return e.ev.CPU() }

// Source returns the Name of the reader that read the event ([Options]), one of several in a merged
// stream ([Merge]). It is empty for [KindFlushed], and for the zero Event.
func (e Event) Source() string { return e.ev.Source() }

// Time returns when the event was output, in ns of CLOCK_MONOTONIC, as bpf_ktime_get_ns returns it.
// The kernel takes it (PERF_SAMPLE_TIME), or the program does under [PayloadTime]. It is 0 if
// neither does.
//
// A loss has the time of the sample that reported it, which follows it, or of the reader's question
// to the kernel. Corrupt memory has the time of an event before it. [KindFlushed] has the time of
// the call. In a stream it has that of [Stream.Watermark], which is no earlier; in
// [Stream.Shutdown], after which nothing comes, that of the last event if that is later.
func (e Event) Time() uint64 { return e.ev.Time() }

// Late reports whether the event came too late for its place in a [Stream]: the stream had
// already delivered one with a later time, or, in exact mode, was complete up to its time
// ([Stream.Watermark]).
func (e Event) Late() bool { return e.ev.Late() }

// Bytes returns the payload of a sample, and an empty slice for other kinds.
//
// The payload may end with 0 to 7 bytes of padding, which hold old ring memory: the kernel does not
// record where the program's bytes end. The slice is aligned to 4 bytes. It points into the ring,
// or to a copy if the record wraps around the ring's end or a stream has moved it ([Spill]). Either
// way it expires as [Event] describes.
func (e Event) Bytes() []byte { return e.ev.Bytes() }

// Lost returns how many outputs failed because the ring was full, for [KindLost], or were shed, for
// [KindShed]; otherwise 0.
func (e Event) Lost() uint64 { return e.ev.Odd().Lost }

// Lane returns the lane of outputs that programs have counted as shed or lost; otherwise 0.
func (e Event) Lane() int { return e.ev.Odd().Lane }

// LostAfter bounds a loss from below: its outputs failed after this time and no later than
// [Event.Time], both in ns of CLOCK_MONOTONIC. It is the greatest time read from that ring before
// the loss, 0 if there was none, and 0 for other kinds. Programs count what they shed, and the
// losses of a BPF ring buffer: the first may have failed earlier, if it was interrupted or
// preempted amid that.
func (e Event) LostAfter() uint64 { return e.ev.Odd().After }

// Counted reports whether programs have counted the loss (LanesFD of the options), not the kernel,
// as they do each [KindShed], or a recording has. It then does not lie between the events of its
// CPU.
func (e Event) Counted() bool { return e.ev.Odd().Counted }

// Reason says why a [KindLost] of a recording is missing, if not because a ring was full; otherwise
// it is empty. Then Lost may be 0, which is: nobody knows how many. See [perfdata.Gap].
//
// [perfdata.Gap]: https://pkg.go.dev/github.com/ringfold/ringfold/perfbuf/perfdata#Gap
func (e Event) Reason() string { return e.ev.Odd().Why }

// Err returns a [*CorruptError] for [KindCorrupt], otherwise nil. Reading goes on after such an
// event.
func (e Event) Err() error {
	if e.Kind() != KindCorrupt {
		return nil
	}
	odd := e.ev.Odd()
	return &CorruptError{CPU: e.CPU(), Offset: odd.Off, Skipped: odd.Size, Reason: odd.Fault.String()}
}

// String returns one line for logs and tests: kind, CPU, time in seconds, and the length, loss or
// error. It allocates. The format may change.
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
		s += fmt.Sprintf(" len=%d", e.ev.Len())
	case KindLost, KindShed:
		s += fmt.Sprintf(" %s=%d", e.Kind(), e.Lost())
		if e.Reason() != "" {
			s += fmt.Sprintf(" reason=%q", e.Reason())
		} else if e.Counted() {
			s += fmt.Sprintf(" lane=%d", e.Lane())
		}
		if e.LostAfter() != 0 {
			s += " after=" + seconds(e.LostAfter())
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

// Record is a copy of an [Event] that you may keep. Each field holds the result of the Event's
// method of that name, and Data that of [Event.Bytes]. Fields that do not apply to the Kind are
// zero.
type Record struct {
	Kind      Kind
	CPU       int
	Source    string
	Time      uint64 // ns of CLOCK_MONOTONIC
	Data      []byte // of KindSample: the payload, and 0 to 7 bytes of padding
	Late      bool   // only in ordered streams
	Lost      uint64 // of KindLost and KindShed: how many outputs
	LostAfter uint64 // of these: earliest time, in ns of CLOCK_MONOTONIC
	Lane      int    // of these, if programs have counted them
	Reason    string // of KindLost, in a recording: why, if not a full ring
	Err       error  // of KindCorrupt: a *CorruptError
}

// Record returns a copy that you may keep. It allocates.
func (e Event) Record() Record {
	rec := Record{Kind: e.Kind(), CPU: e.CPU(), Source: e.Source(), Time: e.Time(), Late: e.Late(), Lost: e.Lost(), LostAfter: e.LostAfter(), Lane: e.Lane(), Reason: e.Reason(), Err: e.Err()}
	if rec.Kind == KindSample {
		rec.Data = append(make([]byte, 0, e.ev.Len()), e.Bytes()...)
	}
	return rec
}

// LogValue implements [slog.LogValuer]. It returns a group: kind, cpu, time in ns; len for samples,
// lost and after for losses and what was shed, and its lane or the reason; err for corrupt memory;
// late if true. The payload's bytes stay out of the log.
func (r Record) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", r.Kind.String()), slog.Int("cpu", r.CPU), slog.Uint64("time", r.Time)}
	switch r.Kind {
	case KindSample:
		attrs = append(attrs, slog.Int("len", len(r.Data)))
	case KindLost, KindShed:
		attrs = append(attrs, slog.Uint64("lost", r.Lost), slog.Uint64("after", r.LostAfter))
		if r.Kind == KindShed {
			attrs = append(attrs, slog.Int("lane", r.Lane))
		}
		if r.Reason != "" {
			attrs = append(attrs, slog.String("reason", r.Reason))
		}
	case KindCorrupt:
		attrs = append(attrs, slog.Any("err", r.Err))
	}
	if r.Late {
		attrs = append(attrs, slog.Bool("late", true))
	}
	return slog.GroupValue(attrs...)
}
