package engine

import (
	"os"
	"sync/atomic"
)

// A Gate lets callers touch memory until it is closed and the last of them has left. It then calls
// a function, once, which unmaps the memory. Methods may be called from anywhere; only Leave may
// block. The zero Gate needs Open.
type Gate struct {
	inside atomic.Int64 // one for the open Gate, and one for each caller between Enter and Leave
	closed atomic.Bool
	done   chan struct{} // closed by Close
	final  chan struct{} // closed after finish returns
	finish func()
}

// Open lets callers in. The last caller to leave calls finish.
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

// retain is Enter for another user. The caller must itself be between Enter and Leave.
func (g *Gate) retain() { g.inside.Add(1) }

// Leave undoes Enter. The last caller to leave blocks while finish runs.
func (g *Gate) Leave() {
	if g.inside.Add(-1) == 0 {
		g.end()
	}
}

// LeaveAtOnce is Leave for callers that must not block.
func (g *Gate) LeaveAtOnce() {
	if g.inside.Add(-1) == 0 {
		go g.end()
	}
}

func (g *Gate) end() {
	g.finish()
	close(g.final)
}

// Close lets no more callers in. It returns true for the first call only; that caller then has to
// Leave once the memory may go.
func (g *Gate) Close() bool {
	if !g.closed.CompareAndSwap(false, true) {
		return false
	}
	close(g.done)
	return true
}

// Closed is true once Close has been called. Loops check it for each event. Only the Gate stores
// it.
func (g *Gate) Closed() *atomic.Bool { return &g.closed }

// Inside returns how many users now keep the memory mapped, counting the open Gate.
func (g *Gate) Inside() int { return int(g.inside.Load()) }

// Done is closed by Close.
func (g *Gate) Done() <-chan struct{} { return g.done }

// Final is closed when finish has returned.
func (g *Gate) Final() <-chan struct{} { return g.final }
