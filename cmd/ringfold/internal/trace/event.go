package trace

import (
	"bytes"
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
)

// thread and payload are struct thread and struct event of trace.bpf.c.
type thread struct {
	PID, TID uint32
	Comm     [16]byte
}

type payload struct {
	Kind    kind
	Code    int32 // switch: 1 if preempted. exit: status, as wait(2) has it
	Current thread
	Other   thread // switch: who runs next. fork: the child
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

// handle passes an event on to the timeline.
func handle(t *timeline, ev perfbuf.Event) error {
	if !t.within(ev.Time()) {
		return nil
	}
	switch ev.Kind() {
	case perfbuf.KindLost:
		return t.lost(ev.CPU(), ev.LostAfter(), ev.Time(), ev.Lost())
	case perfbuf.KindCorrupt:
		return ev.Err()
	}
	p, ok := payloads.Decode(ev)
	if !ok {
		return fmt.Errorf("an event of %d bytes is too short: trace.bpf.o and event.go do not fit together", ev.Len())
	}
	switch p.Kind {
	case kindSwitch:
		return t.switched(ev.CPU(), ev.Time(), p.Current, p.Other, p.Code != 0)
	case kindFork:
		return t.forked(ev.CPU(), ev.Time(), p.Current, p.Other)
	case kindExit:
		return t.exited(ev.CPU(), ev.Time(), p.Current, p.Code)
	case kindExec:
		e, ok := execPayloads.Decode(ev)
		if !ok {
			return fmt.Errorf("an exec of %d bytes is too short: trace.bpf.o and event.go do not fit together", ev.Len())
		}
		return t.executed(ev.CPU(), ev.Time(), p.Current, cstring(e.File[:]))
	}
	return fmt.Errorf("an event of kind %d: trace.bpf.o and event.go do not fit together", p.Kind)
}

func (t thread) name() string { return cstring(t.Comm[:]) }

// cstring cuts b at its first NUL.
func cstring(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
