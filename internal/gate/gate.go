// Package gate counts who may touch memory that is to be unmapped.
package gate

import (
	"os"
	"sync/atomic"
)

// A Gate lets callers touch memory until it is closed and the last of them has left. Then it calls a function,
// once, which unmaps it. Methods may be called from anywhere; only Leave may block. The zero Gate needs Open.
type Gate struct {
	inside atomic.Int64 // the Gate itself until it is closed, and everyone between Enter and Leave
	closed atomic.Bool
	done   chan struct{} // closed by Close
	final  chan struct{} // closed by the last to leave
	finish func()
}

// Open lets callers in. The last to leave calls finish.
func (g *Gate) Open(finish func()) {
	g.done, g.final, g.finish = make(chan struct{}), make(chan struct{}), finish
	g.inside.Store(1)
}

// Enter keeps the memory mapped until Leave. It returns os.ErrClosed after Close.
func (g *Gate) Enter() error {
	for {
		n := g.inside.Load()
		if n == 0 || g.closed.Load() {
			return os.ErrClosed
		}
		if g.inside.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// Retain is Enter on behalf of a caller who has entered and not left.
func (g *Gate) Retain() { g.inside.Add(1) }

// Leave undoes Enter. The last to leave blocks for as long as finish takes.
func (g *Gate) Leave() {
	if g.inside.Add(-1) == 0 {
		g.end()
	}
}

// LeaveAtOnce is Leave for those who must not block.
func (g *Gate) LeaveAtOnce() {
	if g.inside.Add(-1) == 0 {
		go g.end()
	}
}

func (g *Gate) end() {
	g.finish()
	close(g.final)
}

// Close lets nobody in from now on. It reports whether this call did it: the caller then has to Leave, once the memory
// may go.
func (g *Gate) Close() bool {
	if !g.closed.CompareAndSwap(false, true) {
		return false
	}
	close(g.done)
	return true
}

// Closed is true from Close on. Loops look at it for each event. Only the Gate stores it.
func (g *Gate) Closed() *atomic.Bool { return &g.closed }

// Inside is how many could keep the memory mapped now, the open Gate among them.
func (g *Gate) Inside() int { return int(g.inside.Load()) }

// Done is closed by Close.
func (g *Gate) Done() <-chan struct{} { return g.done }

// Final is closed when finish has returned.
func (g *Gate) Final() <-chan struct{} { return g.final }
