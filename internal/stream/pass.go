// Package stream reads the rings that a stream has claimed, in passes: [Unordered] reads one ring
// or all by a plan, [Ordered] merges all by time. Package raw has the memory of rings.
//
// A stream claims its rings when it is made and holds them until it ends. It reads them in passes
// ([Pass]), batch by batch:
//
//	unordered.Begin(sources)
//	defer pass.End()
//	for pass.Next() {
//		// pass.Batch has the next events
//	}
//	// pass.Err says why it ended before the end
package stream

import "sync/atomic"

// Pass goes once over the contents of a stream's rings at its beginning. The stream has one pass at
// a time and reuses it, to allocate nothing.
type Pass struct {
	Batch Batch
	Halt  *atomic.Bool // set when the stream is closed
	Err   error        // why Next returned false, nil if all was read
	walk  walk         // the stream's own part
}

// walk takes a stream from one batch of events to the next.
type walk interface {
	// next makes the next events the pass's batch, and reports whether there are any. The previous
	// events become invalid.
	next() bool
	// end publishes the consumed records and gives the stream back. It runs deferred, so also when
	// the user's function panics or exits its goroutine: its current event then counts as consumed.
	end()
}

// Next calls the Walk's Next.
func (p *Pass) Next() bool { return p.walk.next() }

// End calls the Walk's End.
func (p *Pass) End() { p.walk.end() }
