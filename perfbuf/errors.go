package perfbuf

import (
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/internal/reader"
	"github.com/ringfold/ringfold/internal/walk"
)

// ErrStop, returned by your function, ends a loop early: the call stops after that event and
// returns nil.
var ErrStop = errors.New("perfbuf: stop")

// ErrBusy is returned when you open a [Stream] over rings that another one holds, and by calls on a
// Stream that is in use, by another goroutine or by the function that receives its events. The
// wrapping error says which.
var ErrBusy = walk.ErrBusy

// ErrBarriers is returned by an exact stream when every barrier has failed for more than a second.
// The wrapping error says why. No event is lost, and you may wait again.
var ErrBarriers = errors.New("perfbuf: barriers fail")

// ErrDisplaced is returned once, when another reader has taken entries of the map: events of their
// CPUs no longer arrive. A pass returns it after all that the rings held. The Reader notices within
// about 2 seconds, or when it changes an entry itself; Stats().Displaced says since when events may
// be missing. You may go on reading the other CPUs, take the map back with Pause and Resume, or
// give up. It comes again if more entries are taken.
var ErrDisplaced = reader.ErrDisplaced

// errStopped stands for an ErrStop that the user's function returned.
var errStopped = errors.New("perfbuf: stopped")

// CorruptError describes ring memory that could not be read. Reading went on behind it, usually at
// the end of the data published by then, where the next record is sure to begin.
//
// The kernel itself writes such memory when a program outputs 65509 bytes or more at once (65517
// under [Options.NoTime]): a record's length has 16 bits and wraps. Outputs of up to 7 bytes more
// wrap to 0 and leave no trace, except in the memory that they overwrite. The fix is to output less
// at a time; perfbuf_output of bpf/perfbuf_output.h refuses larger outputs. Loss reports in the
// skipped memory are lost.
type CorruptError struct {
	CPU     int
	Offset  uint64 // where in the ring's stream of bytes, counted from its setting up
	Skipped uint64 // bytes given up
	Reason  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("perfbuf: corrupt ring of CPU %d at offset %d: %s; skipped %d bytes (outputs of 65509 bytes or more do this: output less at once)",
		e.CPU, e.Offset, e.Reason, e.Skipped)
}

// MapError is returned for a map that this package cannot read.
type MapError struct {
	ID, Type, MaxEntries int // as bpftool map show has them; Type is enum bpf_map_type
	Name                 string
	Reason               string // the problem and its fix
}

func (e *MapError) Error() string {
	return fmt.Sprintf("perfbuf: map %q (id %d): %s", e.Name, e.ID, e.Reason)
}

// PermissionError is returned if the kernel refuses to set up rings. It names the missing
// privileges and how to get them. errors.Is(err, fs.ErrPermission) holds.
type PermissionError struct {
	UID      int
	Missing  []string // capabilities, for example CAP_PERFMON
	Paranoid int      // kernel.perf_event_paranoid, or -100 if unreadable
	MlockKB  int      // kernel.perf_event_mlock_kb, or -1 if unreadable
	Detail   string   // cause and fix in words
	Err      error    // the failed call and its errno
}

func (e *PermissionError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Detail) }

// Unwrap returns the failed call's error.
func (e *PermissionError) Unwrap() error { return e.Err }
