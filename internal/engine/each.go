package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/stream"
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

// ErrRingBusy is returned if another goroutine waits for the ring.
var ErrRingBusy = fmt.Errorf("%w: another goroutine waits for this ring", stream.ErrBusy)

// errChanged ends the shared wait because a waiter has come or gone.
var errChanged = errors.New("engine: changed")

// WaitRing is Wait for one ring. The caller has retained the rings; the channel closed ends the
// wait. It returns ErrRingBusy if another goroutine waits for this ring, and ErrBusy if one waits
// for all.
func (w *Waker) WaitRing(ctx context.Context, ring int, closed <-chan struct{}) error {
	done, err := w.join(ring)
	if err != nil {
		return err
	}
	select {
	case err := <-done:
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
func (w *Waker) join(ring int) (done <-chan error, err error) {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	one := &w.each.waiters[ring]
	if one.done == nil {
		one.done = make(chan error, 1)
	}
	if one.waits.Load() || len(one.done) > 0 {
		return nil, ErrRingBusy
	}
	if w.owner.Asked(ring) {
		one.done <- nil // the channel has room, as checked above
		return one.done, nil
	}
	if !w.each.serving {
		if !w.waiting.CompareAndSwap(false, true) {
			return nil, ErrBusy
		}
		w.owner.Retain() // for serve
		w.each.serving = true
		go w.serve()
	}
	w.each.count++
	one.waits.Store(true)
	w.each.changed.Store(true)
	w.poller.Interrupt()
	return one.done, nil
}

// quit undoes join, unless the wait has ended in the meantime.
func (w *Waker) quit(ring int) {
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
func (w *Waker) holds(ring int) bool { return w.owner.Unread(ring) > 0 || w.owner.Asked(ring) }

// Flush ends the wait for each ring whose pass has a call to answer. It does not block.
func (w *Waker) Flush() {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	for i := range w.owner.Len() {
		if one := &w.each.waiters[i]; one.waits.Load() && w.owner.Asked(i) {
			w.finish(one, nil)
			w.each.changed.Store(true)
		}
	}
	if w.each.changed.Load() {
		w.poller.Interrupt()
	}
}

// finish ends the wait for one ring. The caller holds mu.
func (w *Waker) finish(one *waiter, err error) {
	one.waits.Store(false)
	w.each.count--
	one.done <- err // does not block: this wait sends only once
}

// serve waits on behalf of all single-ring waiters, until none is left.
func (w *Waker) serve() {
	defer w.owner.Release()
	for {
		w.ctx, w.parts, w.shared = context.Background(), w.own, true
		err := w.block(0)
		w.ctx, w.parts, w.shared = nil, nil, false
		if w.finishReady(err) {
			return
		}
	}
}

// finishReady ends waits after block has returned err: on nil those whose rings have something, on
// errChanged none, on any other error all. It reports whether no waiter is left.
func (w *Waker) finishReady(err error) (empty bool) {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	w.each.changed.Store(false)
	for i := range w.owner.Len() {
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

// begin makes the caller the only waiter. Once all single-ring waits have ended, the goroutine that
// served them is about to leave: begin waits for that.
func (w *Waker) begin() error {
	if w.waiting.CompareAndSwap(false, true) {
		return nil
	}
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	for w.each.serving && w.each.count == 0 {
		w.each.left.Wait()
	}
	if !w.waiting.CompareAndSwap(false, true) {
		return ErrBusy
	}
	return nil
}

// State describes the waiters, for tests.
type State struct {
	Waiting bool  // a goroutine waits, for one ring or all
	Serving bool  // serve is running
	Each    int   // single-ring waiters
	Ended   []int // rings whose waits have ended, but whose waiters have not seen it
}

// State returns the present State.
func (w *Waker) State() (s State) {
	w.each.mu.Lock()
	defer w.each.mu.Unlock()
	s = State{Waiting: w.waiting.Load(), Serving: w.each.serving, Each: w.each.count}
	for i := range w.each.waiters {
		if len(w.each.waiters[i].done) > 0 {
			s.Ended = append(s.Ended, i)
		}
	}
	return s
}
