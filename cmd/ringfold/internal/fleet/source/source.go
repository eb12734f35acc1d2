// Package source has what an agent reads: the life of the processes of this host, or of a made-up one.
package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/perfbuf"
)

// Source is where events come from.
type Source interface {
	// Open sets up rings for the events. None comes before Attach.
	Open() (*perfbuf.Reader, error)
	// Attach starts the flow of events.
	Attach() error
	// Detach ends it. A program may still be running on another CPU then.
	Detach() error
	// Decode copies a sample, all but its time, or returns ErrSkip if it does not count.
	Decode(perfbuf.Event, *wire.Event) error
	// Now is the clock that the events' times are of. It may be called at any time.
	Now() uint64
	// Close gives everything back, whatever was called before. The reader is closed first.
	Close()
}

// ErrSkip is of an event from before all programs were attached: it is no loss, as nothing of that time is promised.
var ErrSkip = errors.New("event from before the source was complete")

// payload is struct event of fleet.bpf.c. Neither has padding.
type payload struct {
	Kind               uint32
	PID, TID           uint32
	OtherPID, OtherTID uint32
	Code               int32
	Comm               [16]byte
	Detail             [128]byte
}

var payloads = perfbuf.NewDecoder[payload]()

// The numbers of kinds are the same in C and on the wire.
const (
	kindFork = uint32(wire.Event_FORK)
	kindExec = uint32(wire.Event_EXEC)
	kindExit = uint32(wire.Event_EXIT)
)

func decode(ev perfbuf.Event, e *wire.Event) error {
	p, ok := payloads.Decode(ev)
	if !ok {
		return fmt.Errorf("an event of %d bytes is too short: fleet.bpf.o and source.go do not fit together", ev.Len())
	}
	if p.Kind < kindFork || p.Kind > kindExit {
		return fmt.Errorf("an event is of the unknown kind %d: fleet.bpf.o and source.go do not fit together", p.Kind)
	}
	e.Kind = wire.Event_Kind(p.Kind)
	e.Cpu = uint32(ev.CPU())
	e.Pid, e.Tid, e.OtherPid, e.OtherTid, e.Code = p.PID, p.TID, p.OtherPID, p.OtherTID, p.Code
	e.Comm, e.Detail = text(p.Comm[:]), text(p.Detail[:])
	return nil
}

// text ends at the first NUL. Names may hold any bytes, and messages only UTF-8.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.ToValidUTF8(string(b), "�")
}

// encode lays an event out as fleet.bpf.c does.
func encode(p *payload) []byte {
	b, err := binary.Append(make([]byte, 0, 256), binary.NativeEndian, p)
	if err != nil {
		panic(err) // its size is fixed
	}
	return b
}
