package engine

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
)

// each serves goroutines that each wait for one ring. A wakeup reaches only one poller (perf_poll
// consumes readiness), so one goroutine waits on behalf of all of them.
type each struct {
	mu      sync.Mutex
	waiters []waiter  // by ring
	count   int       // of those that wait
	serving bool      // a goroutine waits on their behalf
	left    sync.Cond // of mu: serving has become false
	changed atomic.Bool
}

// waiter is the wait for one ring.
type waiter struct {
	waits atomic.Bool
	done  chan error // receives the result of the wait; nil until the first wait
}

// errChanged ends the shared wait because a waiter has come or gone.
var errChanged = errors.New("engine: changed")

// waitRing is wait for one ring. The caller has entered the reader's Gate; the channel closed ends
// the wait.
func (w *waker) waitRing(ctx context.Context, ring int, closed <-chan struct{}) error {
	select {
	case err := <-w.join(ring):
		return err
	case <-ctx.Done():
		w.quit(ring)
		return context.Cause(ctx)
	case <-closed:
		w.quit(ring)
		return os.ErrClosed
	}
}

// join adds a waiter for a ring.
func (w *waker) join(ring int) (done <-chan error) {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	one := &w.each.waiters[ring]
	if one.done == nil {
		one.done = make(chan error, 1)
	}
	if w.reader.Rings.Asked(ring) {
		one.done <- nil // does not block: the ring's latest waiter has emptied the channel
		return one.done
	}
	if !w.each.serving {
		w.waiting.Store(true)
		w.reader.Gate.retain() // for serve
		w.each.serving = true
		go w.serve()
	}
	w.each.count++
	one.waits.Store(true)
	w.each.changed.Store(true)
	w.poller.Interrupt()
	return one.done
}

// quit undoes join, unless the wait has ended in the meantime.
func (w *waker) quit(ring int) {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	one := &w.each.waiters[ring]
	select {
	case <-one.done:
		return
	default:
	}
	w.each.count--
	one.waits.Store(false)
	w.each.changed.Store(true)
	w.poller.Interrupt()
}

// holds reports whether a ring has something to read, or its pass must end with a marker or an
// error.
func (w *waker) holds(ring int) bool {
	return w.reader.Rings.Unread(ring) > 0 || w.reader.Rings.Asked(ring)
}

// flush ends the wait for each ring whose pass has a call to answer. It does not block.
func (w *waker) flush() {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	for i := range w.reader.Rings.Len() {
		if one := &w.each.waiters[i]; one.waits.Load() && w.reader.Rings.Asked(i) {
			w.finish(one, nil)
			w.each.changed.Store(true)
		}
	}
	if w.each.changed.Load() {
		w.poller.Interrupt()
	}
}

// finish ends the wait for one ring. The caller holds mu.
func (w *waker) finish(one *waiter, err error) {
	one.waits.Store(false)
	w.each.count--
	one.done <- err // does not block: this wait sends only once
}

// serve waits on behalf of all single-ring waiters, until none is left.
func (w *waker) serve() {
	defer w.reader.Gate.Leave()
	for {
		w.ctx, w.parts, w.shared = context.Background(), w.own, true
		err := w.block(0, false) // other goroutines take what comes, and need the thread
		w.ctx, w.parts, w.shared = nil, nil, false
		if w.finishReady(err) {
			return
		}
	}
}

// finishReady ends waits after block has returned err: on nil those whose rings have something, on
// errChanged none, on any other error all. It reports whether no waiter is left.
func (w *waker) finishReady(err error) (empty bool) {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	w.each.changed.Store(false)
	for i := range w.reader.Rings.Len() {
		one := &w.each.waiters[i]
		if err != errChanged && one.waits.Load() && (err != nil || w.holds(i)) {
			w.finish(one, err)
		}
	}
	if w.each.count == 0 {
		w.each.serving = false
		w.waiting.Store(false)
		w.each.left.Broadcast()
	}
	return w.each.count == 0
}

// begin makes the caller the only waiter. All single-ring waits have ended, but the goroutine that
// served them may still be about to leave: begin waits for that.
func (w *waker) begin() {
	if w.waiting.CompareAndSwap(false, true) {
		return
	}
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	for w.each.serving {
		w.each.left.Wait()
	}
	w.waiting.Store(true)
}

// Waiters returns the number of single-ring waiters, or 1 if a goroutine waits for all rings. ended
// are the rings whose waits have ended, but whose waiters have not seen it. It is for tests.
func (r *Reader) Waiters() (n int, ended []int) {
	w := r.waker
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	for i := range w.each.waiters {
		if len(w.each.waiters[i].done) > 0 {
			ended = append(ended, i)
		}
	}
	if w.waiting.Load() {
		return max(w.each.count, 1), ended
	}
	return w.each.count, ended
}
