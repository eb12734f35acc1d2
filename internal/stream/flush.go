package stream

import (
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Flushes are the calls that ask for everything the rings hold, followed by a marker or an error.
// One answer serves all calls before it.
type Flushes struct {
	latest atomic.Pointer[Flush]
	seen   *Flush // the result of the latest Look
}

// Flush stands for one or more unanswered calls.
type Flush struct {
	Time   uint64     // of the latest call, by the clock
	err    error      // the error that ends the pass; nil: a marker answers
	marker raw.Single // one per Flush: a stream may deliver one while the user holds another
}

// Ask adds a call. It may be called from anywhere, and does not block.
func (f *Flushes) Ask(now uint64) { f.ask(&Flush{Time: now}) }

// fail is like Ask, but the pass ends with this error.
func (f *Flushes) fail(now uint64, err error) { f.ask(&Flush{Time: now, err: err}) }

func (f *Flushes) ask(ask *Flush) {
	for {
		old := f.latest.Load()
		if old != nil {
			ask.Time = max(ask.Time, old.Time)
		}
		if f.latest.CompareAndSwap(old, ask) {
			return
		}
	}
}

// Load returns the unanswered Flush, nil if there is none.
func (f *Flushes) Load() *Flush { return f.latest.Load() }

// look is Load for a waiting caller, which later asks whether it has Overlooked a call.
func (f *Flushes) look() *Flush {
	f.seen = f.latest.Load()
	return f.seen
}

// overlooked reports whether there is a Flush that Look has not returned.
func (f *Flushes) overlooked() bool {
	ask := f.latest.Load()
	return ask != nil && ask != f.seen
}

// answer makes the marker the batch of a pass, or ends the pass with the error. It does neither if
// the Flush has been answered, or if a later call has replaced it: that one gets its own answer. It
// reports whether there is a batch.
func (f *Flushes) answer(p *Pass, ask *Flush, time uint64) bool {
	switch {
	case !f.latest.CompareAndSwap(ask, nil):
	case ask.err != nil:
		p.Err = ask.err
	default:
		ask.mark(p, time)
		return true
	}
	return false
}

// mark makes the batch of a pass a marker that answers no call.
func mark(p *Pass, time uint64) { new(Flush).mark(p, time) }

func (f *Flush) mark(p *Pass, time uint64) {
	p.Batch.one(f.marker.Odd(nil, raw.Odd{CPU: noCPU, Kind: raw.Flushed, Time: time}))
}

// noCPU marks events that belong to no CPU.
const noCPU = -1
