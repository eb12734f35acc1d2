package lifecycle

import (
	"encoding/binary"
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// Event is struct event of lifecycle.bpf.c. Neither has padding.
type Event struct {
	Kind               Kind
	PID, TID           uint32 // the process and thread that ran
	ChildPID, ChildTID uint32 // of a fork
	Code               int32  // of an exit: the status, as wait(2) has it
	CommBytes          [16]byte
	FileBytes          [128]byte // of an exec
}

// Kind is what happened.
type Kind uint32

// Kinds, as in lifecycle.bpf.c.
const (
	Fork Kind = iota + 1
	Exec
	Exit
)

var names = [...]string{"unknown", "fork", "exec", "exit"}

func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

var events = perfbuf.NewDecoder[Event]()

// Decode copies a sample out of its ring.
func Decode(ev perfbuf.Event) (Event, error) {
	e, ok := events.Decode(ev)
	if !ok {
		return e, fmt.Errorf("an event of %d bytes is too short: lifecycle.bpf.o and event.go do not fit together", len(ev.Bytes()))
	}
	return e, nil
}

// Encode lays an event out as lifecycle.bpf.c does, for a simulated kernel.
func Encode(e Event) []byte {
	b, err := binary.Append(make([]byte, 0, 192), binary.NativeEndian, e)
	if err != nil {
		panic(err) // its size is fixed
	}
	return b
}

// Comm is the name of the thread that ran.
func (e *Event) Comm() string { return unix.ByteSliceToString(e.CommBytes[:]) }

// File is what an exec runs.
func (e *Event) File() string { return unix.ByteSliceToString(e.FileBytes[:]) }
