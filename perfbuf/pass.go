package perfbuf

import (
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/raw"
)

// Source is what a pass reads: one [Ring], a [Reader] (all rings), or an [Ordered] stream (all
// rings, what is due in time order). Only they, and types that embed them, implement it.
type Source interface {
	// begin claims the source, of which the pass is then the caller's until its end. If it fails, nothing is
	// claimed.
	begin() (*pass, error)
}

// pass goes once over what a source holds at its begin. It belongs to the source, which has one at a time, so
// that nothing is allocated for it. All ways of reading are made of it:
//
//	p, err := src.begin()
//	...
//	defer p.end()
//	for p.next() {
//		// p.batch has the next events
//	}
//	// p.err says why it ended before the end
type pass struct {
	batch Batch
	halt  *atomic.Bool // set when the source or its reader is closed
	err   error        // why next returned false, nil if all was read
	walk  walk         // the source's own part
}

// walk is how a source comes from one batch of events to the next.
type walk interface {
	// next makes the pass's batch of the next events. It reports whether there are any, and ends the life of those before.
	next() bool
	// end publishes what was consumed, and gives the source back. It runs deferred, so also when the user's
	// function panics or exits its goroutine: the event it had then counts as consumed.
	end()
}

func (p *pass) next() bool { return p.walk.next() }
func (p *pass) end()       { p.walk.end() }

// one is a batch of one event.
func (p *pass) one(ev raw.Event) {
	p.batch.single[0] = ev
	p.batch.set(p.batch.single[:])
}
