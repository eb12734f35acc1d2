package perfbuf

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// lobby is where goroutines wait that read one ring each. A wake-up tells only one poller which ring
// it was for (perf_poll consumes readiness), so one goroutine waits for all who are here.
type lobby struct {
	mu      sync.Mutex
	guests  int // rings that are waited for
	open    bool
	changed atomic.Bool // somebody has come or gone
}

// Wait is [Reader.Wait] for one ring, for those who read each ring with a goroutine of its own. Any
// number of rings may be waited for at the same time, each by one goroutine, but not the Reader too:
// that is refused with [ErrBusy]. A [Reader.Flush] ends it once, if the ring holds something then.
func (r *Ring) Wait(ctx context.Context) error {
	rd := r.reader
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := rd.enter(); err != nil {
		return err
	}
	defer rd.leave()
	if rd.heldByStream() {
		return errOrdering
	}
	if err := rd.comeIn(r); err != nil {
		return err
	}
	select {
	case err := <-r.served:
		return err
	case <-ctx.Done():
		rd.goAway(r)
		return context.Cause(ctx)
	case <-rd.done:
		rd.goAway(r)
		return os.ErrClosed
	}
}

// Run is [Reader.Run] for one ring, for a goroutine of its own: see [Ring.Wait].
func (r *Ring) Run(ctx context.Context, f func(Event) error) error { return run(ctx, r, f) }

// comeIn makes somebody wait for a ring too.
func (r *Reader) comeIn(ring *Ring) error {
	l := &r.lobby
	l.mu.Lock()
	defer l.mu.Unlock()
	if ring.waited.Load() || len(ring.served) > 0 {
		return fmt.Errorf("%w: another goroutine waits for the ring of CPU %d", ErrBusy, ring.cpu)
	}
	if ring.flushed {
		if ring.flushed = false; ring.used() > 0 {
			ring.served <- nil // there is room, as above
			return nil
		}
	}
	if !l.open {
		if !r.waiting.CompareAndSwap(false, true) {
			return errWaiting
		}
		r.refs.Add(1) // for serve, which leaves; the caller has entered
		l.open = true
		go r.serve()
	}
	l.guests++
	ring.waited.Store(true)
	l.changed.Store(true)
	r.kernel.Interrupt()
	return nil
}

// goAway undoes comeIn, unless the ring has been served meanwhile.
func (r *Reader) goAway(ring *Ring) {
	l := &r.lobby
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-ring.served:
		return
	default:
	}
	l.guests--
	ring.waited.Store(false)
	l.changed.Store(true)
	r.kernel.Interrupt()
}

// flushLobby ends the waits for rings that hold something. Who comes later for what a ring holds now does not wait.
func (r *Reader) flushLobby() {
	l := &r.lobby
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ring := range r.all() {
		switch {
		case ring.used() == 0:
		case ring.waited.Load():
			r.dismissed(ring, nil)
			l.changed.Store(true)
		default:
			ring.flushed = true
		}
	}
	if l.changed.Load() {
		r.kernel.Interrupt()
	}
}

// dismissed ends the waiting for one ring.
func (r *Reader) dismissed(ring *Ring, err error) {
	ring.waited.Store(false)
	r.lobby.guests--
	ring.served <- err // there is room: who waits has not been served
}

// serve waits on behalf of all in the lobby, until it is empty.
func (r *Reader) serve() {
	defer r.leave()
	l := &r.lobby
	for {
		if r.dismiss(r.block(wanted{ctx: context.Background(), lobby: l}, 0)) {
			return
		}
	}
}

// dismiss ends the waiting for rings that have something, if err, with which block has ended, is nil,
// or for all if it is one that concerns all. It reports whether nobody is left.
func (r *Reader) dismiss(err error) (empty bool) {
	l := &r.lobby
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Store(false)
	for _, ring := range r.all() {
		if err != errChanged && ring.waited.Load() && (err != nil || ring.used() > 0) {
			r.dismissed(ring, err)
		}
	}
	if l.guests == 0 {
		l.open = false
		r.waiting.Store(false)
	}
	return l.guests == 0
}
