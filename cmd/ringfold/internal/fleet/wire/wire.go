// Package wire is what agents publish: fleet.proto and event.proto, and what it cannot express.
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative fleet.proto event.proto

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// What a batch may be at most. Agents stay far below; what is larger is not theirs, and would cost
// its reader memory.
const (
	MaxBytes  = 1 << 20 // NATS's own default for a message
	MaxEvents = 1 << 14
	maxPlace  = 1 << 10 // of MaxBytes, what AppendPlace adds
	maxName   = 255     // a host's, a boot's, a log's
	maxComm   = 64      // the kernel's has 16
	maxDetail = 4096    // PATH_MAX
)

// ErrMalformed is in every error of Unmarshal and Marshal: another try with the same bytes changes
// nothing.
var ErrMalformed = errors.New("malformed batch")

// ID names a batch: JetStream drops a message whose ID it has seen a short while ago.
func ID(b *Batch) string {
	return fmt.Sprintf("%s/%d", b.LogId, b.Sequence)
}

// Subject is where a host's batches are published. What a subject's part cannot hold becomes "_",
// so two hosts may share one: a reader goes by Batch.Host.
func Subject(prefix, host string) string {
	return prefix + "." + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_') {
			return r
		}
		return '_'
	}, host)
}

// Marshal is a message's payload. What Unmarshal would refuse is an error here, but for the batch's
// place: AppendPlace may add that later.
func Marshal(b *Batch) ([]byte, error) {
	if err := check(b); err != nil {
		return nil, err
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(data) > MaxBytes-maxPlace {
		return nil, tooLarge(len(data), MaxBytes-maxPlace)
	}
	return data, nil
}

// AppendPlace adds the fields of b that say where a batch has its place to its payload.
func AppendPlace(data []byte, b *Batch) ([]byte, error) {
	place := &Batch{LogId: b.LogId, Sequence: b.Sequence, First: b.First, Prior: b.Prior}
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(data, place) // of a field that comes twice the last one counts
}

// Unmarshal reads a message's payload, which may be anything, and checks what can be checked in a
// batch alone.
func Unmarshal(data []byte) (*Batch, error) {
	if len(data) > MaxBytes {
		return nil, tooLarge(len(data), MaxBytes)
	}
	b := new(Batch)
	if err := proto.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := cmp.Or(check(b), checkPlace(b)); err != nil {
		return nil, err
	}
	return b, nil
}

func tooLarge(n, most int) error {
	return fmt.Errorf("%w: %d bytes, more than %d", ErrMalformed, n, most)
}

func check(b *Batch) error {
	if err := cmp.Or(checkName("host", b.Host), checkName("boot_id", b.BootId)); err != nil {
		return err
	}
	if b.Since > b.Watermark {
		return fmt.Errorf("%w: it begins at %d, after its watermark %d", ErrMalformed, b.Since, b.Watermark)
	}
	if len(b.Events) > MaxEvents {
		return fmt.Errorf("%w: %d events, more than %d", ErrMalformed, len(b.Events), MaxEvents)
	}
	last := uint64(0)
	for i, e := range b.Events {
		if err := checkEvent(e, b.BaseTime, last); err != nil {
			return fmt.Errorf("%w: event %d of %d %w", ErrMalformed, i+1, len(b.Events), err)
		}
		last = e.Delta
	}
	return nil
}

func checkPlace(b *Batch) error {
	if b.First == 0 || b.First > b.Sequence || b.Sequence > math.MaxInt64 {
		return fmt.Errorf("%w: its sequence number is %d, in a log that begins with %d", ErrMalformed, b.Sequence, b.First)
	}
	if b.Prior != "" {
		if err := checkName("prior", b.Prior); err != nil {
			return err
		}
	}
	return checkName("log_id", b.LogId)
}

// checkName checks a name: it becomes a part of a header, of a path and of lines on a terminal.
func checkName(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: its %s is missing", ErrMalformed, field)
	case len(s) > maxName:
		return fmt.Errorf("%w: its %s has %d bytes, more than %d", ErrMalformed, field, len(s), maxName)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return fmt.Errorf("%w: its %s has characters that cannot be printed: %q", ErrMalformed, field, s)
	}
	return nil
}

func checkEvent(e *Event, base, last uint64) error {
	switch {
	case e == nil:
		return errors.New("is nil")
	case e.Delta < last:
		return fmt.Errorf("is not in the order of time: delta %d after %d", e.Delta, last)
	case base+e.Delta < base:
		return fmt.Errorf("has a time beyond 64 bits: base_time %d + delta %d", base, e.Delta)
	case len(e.Comm) > maxComm:
		return fmt.Errorf("has a comm of %d bytes, more than %d", len(e.Comm), maxComm)
	case len(e.Detail) > maxDetail:
		return fmt.Errorf("has a detail of %d bytes, more than %d", len(e.Detail), maxDetail)
	case e.Kind == Event_GAP && e.Gap == nil:
		return errors.New("is a gap, and does not say which")
	case e.Kind != Event_GAP && e.Gap != nil:
		return fmt.Errorf("is of kind %v, and has a gap", e.Kind)
	case e.Gap != nil && e.Gap.After > base+e.Delta:
		return fmt.Errorf("is a gap that begins at %d, after its end at %d", e.Gap.After, base+e.Delta)
	}
	return nil
}
