package walk

import (
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Flushes are the calls that ask for all that the rings hold, followed by a marker or by an error. One answer is
// for all calls that it follows.
type Flushes struct {
	latest atomic.Pointer[Flush]
	seen   *Flush // by Look
}

// Flush is one or more calls that have not been answered.
type Flush struct {
	Time   uint64     // of the latest call, by the clock
	err    error      // ends a pass; nil: a marker answers
	marker raw.Single // each has its own: a stream may deliver one while another is with the user
}

// Ask adds a call. It may be made from anywhere, and does not block.
func (f *Flushes) Ask(now uint64) { f.ask(&Flush{Time: now}) }

// Fail is Ask for the error with which a pass is to end.
func (f *Flushes) Fail(now uint64, err error) { f.ask(&Flush{Time: now, err: err}) }

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

// Load returns what has not been answered, nil if all has.
func (f *Flushes) Load() *Flush { return f.latest.Load() }

// Look is Load for whoever waits until it can be answered, and then asks what has been Overlooked.
func (f *Flushes) Look() *Flush {
	f.seen = f.latest.Load()
	return f.seen
}

// Overlooked reports whether there is one that Look has not returned.
func (f *Flushes) Overlooked() bool {
	ask := f.latest.Load()
	return ask != nil && ask != f.seen
}

// Answer makes the marker the batch of a pass, or has the pass end with the error, unless it has been
// delivered, or another call has come since: that has an answer of its own. It reports whether there is
// a batch.
func (f *Flushes) Answer(p *Pass, ask *Flush, time uint64) bool {
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

// Mark makes a marker that answers no call the batch of a pass.
func Mark(p *Pass, time uint64) { new(Flush).mark(p, time) }

func (f *Flush) mark(p *Pass, time uint64) {
	p.Batch.One(f.marker.Odd(nil, raw.Odd{CPU: noCPU, Kind: raw.Flushed, Time: time}))
}

// noCPU is the CPU of what belongs to none.
const noCPU = -1
