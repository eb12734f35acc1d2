package demo

import (
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
)

// event is one line of output, in a form that outlives the ring.
type event struct {
	lifecycle.Event // of samples

	kind perfbuf.Kind
	time uint64 // ns of CLOCK_MONOTONIC
	cpu  int
	late bool

	lost  uint64 // how many
	after uint64 // they were lost after this time, in ns; 0 if there was no event before
	err   error  // what is corrupt
}

// decode copies an event out of its ring.
func decode(ev perfbuf.Event) (e event, err error) {
	e.kind, e.time, e.cpu, e.late = ev.Kind(), ev.Time(), ev.CPU(), ev.Late()
	switch e.kind {
	case perfbuf.KindLost:
		e.lost, e.after = ev.Lost(), ev.LostAfter()
	case perfbuf.KindCorrupt:
		e.err = ev.Err()
	default:
		e.Event, err = lifecycle.Decode(ev)
	}
	return e, err
}

// name is what happened.
func (e *event) name() string {
	switch e.kind {
	case perfbuf.KindLost:
		return "lost"
	case perfbuf.KindCorrupt:
		return "corrupt"
	}
	return e.Kind.String()
}
