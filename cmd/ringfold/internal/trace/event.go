package trace

import (
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// thread and payload are struct thread and struct event of trace.bpf.c.
type thread struct {
	PID, TID uint32
	Comm     [16]byte
}

func (t thread) name() string { return unix.ByteSliceToString(t.Comm[:]) }

type payload struct {
	Kind    kind
	Code    int32 // switch: 1 if preempted. exit: status, as wait(2) has it
	Current thread
	Other   thread // switch: what runs next. fork: the child
}

type execPayload struct {
	payload
	File [128]byte
}

// Payloads as trace.bpf.c outputs them. An exec's is longer, and begins as the others do.
var (
	payloads     = perfbuf.NewDecoder[payload]()
	execPayloads = perfbuf.NewDecoder[execPayload]()
)

type kind uint32

const ( // as in trace.bpf.c
	kindSwitch kind = iota + 1
	kindFork
	kindExec
	kindExit
)

// handle passes an event of the command's own programs on to the timeline.
func handle(l *timeline, ev perfbuf.Event) error {
	switch ev.Kind() {
	case perfbuf.KindLost, perfbuf.KindShed:
		l.lost(ev.CPU(), ev.LostAfter(), ev.Time(), ev.Lost(), ev.Kind(), ev.Reason())
		return nil
	case perfbuf.KindCorrupt:
		return ev.Err()
	}
	p, ok := payloads.Decode(ev)
	switch e, isExec := execPayloads.Decode(ev); {
	case ok && p.Kind == kindSwitch:
		l.switched(ev.CPU(), ev.Time(), p.Current, p.Other, p.Code != 0)
	case ok && p.Kind == kindFork:
		l.forked(ev.CPU(), ev.Time(), p.Current, p.Other)
	case isExec && p.Kind == kindExec:
		l.executed(ev.CPU(), ev.Time(), p.Current, unix.ByteSliceToString(e.File[:]))
	case ok && p.Kind == kindExit:
		l.exited(ev.CPU(), ev.Time(), p.Current, p.Code)
	default:
		return fmt.Errorf("an event of kind %d and %d bytes: trace.bpf.o and event.go do not fit together", p.Kind, len(ev.Bytes()))
	}
	return nil
}
