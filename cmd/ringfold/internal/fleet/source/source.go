// Package source has what an agent reads: the life of the processes of this host, or of a made-up one.
package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
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

// decode copies a sample of lifecycle's. The numbers of kinds are the same there and on the wire.
func decode(ev perfbuf.Event, e *wire.Event) error {
	p, err := lifecycle.Decode(ev)
	if err != nil {
		return err
	}
	if p.Kind < lifecycle.Fork || p.Kind > lifecycle.Exit {
		return fmt.Errorf("an event is of the unknown kind %d: lifecycle.bpf.o and event.go do not fit together", p.Kind)
	}
	e.Kind = wire.Event_Kind(p.Kind)
	e.Cpu = uint32(ev.CPU())
	e.Pid, e.Tid, e.OtherPid, e.OtherTid, e.Code = p.PID, p.TID, p.ChildPID, p.ChildTID, p.Code
	// Names may hold any bytes, and messages only UTF-8.
	e.Comm, e.Detail = strings.ToValidUTF8(p.Comm(), "�"), strings.ToValidUTF8(p.File(), "�")
	return nil
}
