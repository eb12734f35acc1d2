// Package walk reads rings: one, or all of a reader's, without regard to the order of events on different CPUs.
//
// A stream claims the rings that it reads, from its making to its end. What they hold is read in a [Pass], batch by
// batch:
//
//	unordered.Begin(sources)
//	defer pass.End()
//	for pass.Next() {
//		// pass.Batch has the next events
//	}
//	// pass.Err says why it ended before the end
package walk

import "sync/atomic"

// Pass goes once over what a stream's rings hold at its begin. It belongs to the stream, which has one at a time, so
// that nothing is allocated for it.
type Pass struct {
	Batch Batch
	Halt  *atomic.Bool // set when the stream is closed
	Err   error        // why Next returned false, nil if all was read
	Walk  Walk         // the stream's own part
}

// Walk is how a stream comes from one batch of events to the next.
type Walk interface {
	// Next makes the pass's batch of the next events. It reports whether there are any, and ends the life of those before.
	Next() bool
	// End publishes what was consumed, and gives the stream back. It runs deferred, so also when the user's
	// function panics or exits its goroutine: the event it had then counts as consumed.
	End()
}

// Next is that of the stream.
func (p *Pass) Next() bool { return p.Walk.Next() }

// End is that of the stream.
func (p *Pass) End() { p.Walk.End() }
