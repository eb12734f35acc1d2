package demo

import (
	"bytes"
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
)

// payload is struct event of ordered.bpf.c. Neither has padding.
type payload struct {
	Kind               kind
	PID, TID           uint32 // who ran
	OtherPID, OtherTID uint32 // fork: the child. wakeup: who is woken. switch: who runs next
	Code               int32  // exit: status, as wait(2) has it. switch: 1 if preempted
	Comm               [16]byte
	Detail             [64]byte // exec: the file. wakeup, switch: the other's comm
}

// payloads decodes what ordered.bpf.c outputs.
var payloads = perfbuf.NewDecoder[payload]()

// kind is what happened.
type kind uint32

const ( // up to kindSwitch as in ordered.bpf.c
	kindFork kind = iota + 1
	kindExec
	kindExit
	kindWakeup
	kindSwitch
	kindLost
	kindCorrupt
)

var kindNames = [...]string{"unknown", "fork", "exec", "exit", "wakeup", "switch", "lost", "corrupt"}

func (k kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[0]
}

// event is one line of output, in a form that outlives the ring.
type event struct {
	payload // of lost and corrupt only Kind is set

	time uint64 // ns of CLOCK_MONOTONIC
	cpu  int
	late bool

	lost  uint64 // how many
	after uint64 // they were lost after this time, in ns; 0 if there was no event before
	err   error  // what is corrupt
}

// decode copies an event out of its ring.
func decode(ev perfbuf.Event) (e event, err error) {
	e.time, e.cpu, e.late = ev.Time(), ev.CPU(), ev.Late()
	switch ev.Kind() {
	case perfbuf.KindLost:
		e.Kind, e.lost, e.after = kindLost, ev.Lost(), ev.After()
	case perfbuf.KindCorrupt:
		e.Kind, e.err = kindCorrupt, ev.Err()
	default:
		var ok bool
		if e.payload, ok = payloads.Decode(ev); !ok {
			return e, fmt.Errorf("an event of %d bytes is too short: ordered.bpf.o and event.go do not fit together", ev.Len())
		}
	}
	return e, nil
}

// cstring cuts b at its first NUL.
func cstring(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

func (e *event) comm() []byte   { return cstring(e.Comm[:]) }
func (e *event) detail() []byte { return cstring(e.Detail[:]) }
