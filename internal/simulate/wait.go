package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	seam "github.com/ringfold/ringfold/internal/kernel"
)

// wait is the state of a stream's wait.
type wait struct {
	cancel context.CancelFunc // nil: the user does not wait
	left   int                // pauses until it is cancelled
	since  int                // the kernel's step when the stream fell asleep

	interrupted bool
}

// mostPauses bounds a wait. A stream that sets no deadline within longest relies on wakeups alone.
const (
	mostPauses = 1000
	longest    = time.Hour
)

// wait makes the user wait until something is due, or for mostPauses pauses.
func (w *world) wait() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.waits, w.using = wait{cancel: cancel, left: mostPauses}, true
	err := w.stream.Wait(ctx)
	w.waits, w.using = wait{}, false
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, w.failure, w.made())
}

// waited counts a pause of the wait and cancels the wait in the end.
func (w *world) waited() {
	if w.waits.cancel == nil {
		return
	}
	if w.waits.left--; w.waits.left <= 0 || w.finishing || w.consumer.stopped {
		w.waits.cancel()
		w.waits.left = 0
	}
}

// waitFor is kernel.Poller's Wait for some sources. Only simulated time passes.
func (w *world) waitFor(members []*source, until time.Time, ready func(woken bool) bool) error {
	w.waits.interrupted = false
	w.woken(members)
	if ready(false) {
		return nil
	}
	if !until.IsZero() && time.Until(until) < longest {
		w.waits.cancel() // the stream would look again by itself
		return os.ErrDeadlineExceeded
	}
	w.waits.since = w.kernel.steps
	for w.waits.left > 0 {
		w.pause()
		w.fresh()
		if w.waits.interrupted { // an interrupt acts like an expired deadline
			w.waits.interrupted = false
			if ready(false) {
				return nil
			}
		}
		if w.woken(members) {
			if ready(true) {
				return nil
			}
			continue
		}
		if w.failure = w.overslept(); w.failure != nil {
			w.waits.cancel()
			break
		}
	}
	return os.ErrDeadlineExceeded
}

// woken reports whether the kernel has woken any member since the last call.
func (w *world) woken(members []*source) (woken bool) {
	for _, src := range members {
		select {
		case <-src.wakes():
			woken = true
		default:
		}
	}
	return woken
}

// overslept checks that each commit since the stream fell asleep woke it. A record behind a busy or
// undelivered one need not.
func (w *world) overslept() error {
	if w.Mutant == EarlyHeads {
		return nil // the stream cannot see the records that woke it
	}
	for _, r := range w.truth.pending {
		if src := r.to; src.bufs != nil && !src.out && !w.leaving(src) && r.step > w.waits.since && !w.truth.isBehind(r) {
			return fmt.Errorf("%w: %v: nobody is woken for a record of time %d: its ring has its tail at %#x, and it is at %#x", ErrDelayed, src, r.key, src.tail(r.ring), r.off)
		}
	}
	return nil
}

// leaving reports whether a Remove of the source is under way. A wait goes on without it.
func (w *world) leaving(src *source) bool {
	return slices.ContainsFunc(w.changing, func(c *change) bool { return c.src == src && !c.in })
}

// isBehind reports whether a busy or undelivered record precedes r in its ring.
func (t *truth) isBehind(r *record) bool {
	for _, o := range r.to.busy[r.ring] {
		if int64(o.off-r.off) < 0 {
			return true
		}
	}
	for _, other := range t.pending {
		if other.to == r.to && other.ring == r.ring && int64(other.off-r.off) < 0 {
			return true
		}
	}
	return false
}

// wakes receives a value when the kernel wakes the source's reader.
func (src *source) wakes() <-chan struct{} {
	if src.bufs != nil {
		return src.bufs.Wakes()
	}
	return src.perf.Wakes()
}

// group is the set of sources waited for together: the world's members.
type group struct{ *world }

// Add adds a source, unless the kernel refuses.
func (g group) Add(k seam.Kernel) error {
	if g.refusing && g.Mutant != Forgotten {
		return errRefused
	}
	if !g.refusing {
		g.members = append(g.members, sourceOf(k))
	}
	return nil
}

// Remove removes a source, which must not be freed yet.
func (g group) Remove(k seam.Kernel) {
	g.members = slices.DeleteFunc(g.members, func(src *source) bool { return src == sourceOf(k) })
}

// Close has nothing to close.
func (g group) Close() { g.members = nil }

// Wait waits for the members.
func (g group) Wait(until time.Time, ready func(woken bool) bool) error {
	return g.waitFor(g.members, until, ready)
}

// Interrupt does nothing, because contexts call it from their own goroutines. See meddled.
func (g group) Interrupt() {}

// awaited checks that the stream waits for exactly its sources.
func (w *world) awaited() error {
	for _, src := range w.sources {
		if waited := slices.Contains(w.members, src); w.members != nil && len(w.changing) == 0 && !src.closed && waited == src.out {
			return fmt.Errorf("%w: %v is out: %v, and is waited for: %v", ErrRest, src, src.out, waited)
		}
	}
	return nil
}

func sourceOf(k seam.Kernel) *source {
	return k.(interface{ source() *source }).source()
}

// source returns the kernel's source. It panics after Free, when nobody may use the kernel.
func (k *seen) source() *source {
	if k.freed {
		panic("a kernel is asked after it was freed")
	}
	return k.src
}

// Group makes a group of one.
func (k *seen) Group() (seam.Group, error) {
	w := k.source().world
	if w.refusing && w.Mutant != Forgotten {
		return nil, errRefused
	}
	w.members = []*source{k.src}
	return group{w}, nil
}

// Wait waits for this source alone.
func (k *seen) Wait(until time.Time, ready func(woken bool) bool) error {
	return k.src.world.waitFor([]*source{k.source()}, until, ready)
}

// Interrupt does nothing, as the group's.
func (k *seen) Interrupt() {}
