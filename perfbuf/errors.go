package perfbuf

import (
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/internal/engine"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/stream"
)

// ErrStop, returned by your function, ends a loop early: the call stops after that event and
// returns nil.
var ErrStop = errors.New("perfbuf: stop")

// ErrBusy is returned when you open a [Stream] over rings that another one holds, and by calls on a
// Stream that is in use, by another goroutine or by the function that receives its events. The
// wrapping error says which.
var ErrBusy = stream.ErrBusy

// ErrBarriers is returned by an exact stream when every barrier has failed for more than a second.
// The wrapping error says why. No event is lost, and you may wait again.
var ErrBarriers = errors.New("perfbuf: barriers fail")

// ErrDisplaced is returned once, when another reader has taken entries of the map: events of their
// CPUs no longer arrive. A pass returns it after all that the rings held. The Reader notices within
// about 2 seconds, or when it changes an entry itself; Displaced of [Reader.Stats] says since when
// events may be missing. You may go on reading the other CPUs, take the map back with Pause and
// Resume, or give up. It comes again if more entries are taken.
var ErrDisplaced = engine.ErrDisplaced

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

// MapError is returned for a map that this package cannot read. It has ID, Type, MaxEntries and
// Name as bpftool map show has them (Type is the number of an enum bpf_map_type), and Reason: the
// problem and its fix.
type MapError = host.MapError

// PermissionError is returned if the kernel refuses to set up rings. It has the process's UID;
// Missing, capabilities such as CAP_PERFMON; Paranoid and MlockKB, the settings
// kernel.perf_event_paranoid, or -100, and kernel.perf_event_mlock_kb, or -1, if unreadable;
// Detail, the cause and how to get what is missing, in words; and Err, the failed call and its
// errno. errors.Is(err, fs.ErrPermission) holds.
type PermissionError = host.PermissionError
