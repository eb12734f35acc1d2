package wake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ringfold/ringfold/internal/walk"
)

// each is the goroutines that wait for one ring each. A wakeup tells only one poller which ring it was for
// (perf_poll consumes readiness), so one goroutine waits on behalf of all of them.
type each struct {
	mu      sync.Mutex
	waiters []waiter  // by ring
	count   int       // that wait
	serving bool      // a goroutine waits on their behalf
	left    sync.Cond // of mu: it does not any longer
	changed atomic.Bool
}

// waiter is who waits for a ring.
type waiter struct {
	waits atomic.Bool
	done  chan error // what has ended the wait; nil until the first
}

// ErrRingBusy is returned if another goroutine waits for that ring.
var ErrRingBusy = fmt.Errorf("%w: another goroutine waits for this ring", walk.ErrBusy)

// errChanged ends the wait on behalf of waiters of whom somebody has come or gone.
var errChanged = errors.New("wake: changed")

// WaitRing is Wait for one ring. The caller has retained the rings, and closes closed when they are. It returns
// ErrRingBusy if another goroutine waits for this ring, and ErrBusy if one waits for all.
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

// join makes somebody wait for a ring too.
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
		one.done <- nil // there is room, as above
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

// quit undoes join, unless the wait has ended meanwhile.
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

// holds reports whether there is something to read in a ring, or a marker or an error at its end.
func (w *Waker) holds(ring int) bool { return w.owner.Unread(ring) > 0 || w.owner.Asked(ring) }

// Flush ends the waits that are under way, for one ring if a pass over that has a call to answer. It does not block.
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

// finish ends the wait for one ring, with the lock held.
func (w *Waker) finish(one *waiter, err error) {
	one.waits.Store(false)
	w.each.count--
	one.done <- err // there is room: the wait has not ended before
}

// serve waits on behalf of all who wait for one ring, until nobody does.
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

// finishReady ends the waits for rings that have something, if err, with which block has ended, is nil,
// or all if it is one that concerns all. It reports whether nobody is left.
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

// begin makes the caller the only one that waits. Once all waits for single rings have ended, the goroutine that served them
// is about to leave: begin waits for that.
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

// State is who waits, for tests.
type State struct {
	Waiting bool  // somebody does, for one ring or all
	Serving bool  // on behalf of those who wait for one ring each
	Each    int   // so many of them
	Ended   []int // rings whose waits have ended, and whose waiters have not seen it yet
}

// State returns it.
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
