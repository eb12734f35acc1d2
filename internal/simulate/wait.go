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

// wait is a stream's wait, as the simulation sees it.
type wait struct {
	cancel context.CancelFunc // nil: the user does not wait
	left   int                // pauses until it is cancelled
	since  int                // the kernel's step when it fell asleep, until the kernel wakes it

	interrupted bool
}

// mostPauses bounds a wait, and longest is less than any time without which the kernel's wakeups alone end it.
const (
	mostPauses = 1000
	longest    = time.Hour
)

// wait has the user wait, until something is due or for some pauses.
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

// waited counts a pause of a wait.
func (w *world) waited() {
	if w.waits.cancel == nil {
		return
	}
	if w.waits.left--; w.waits.left <= 0 || w.finishing || w.consumer.stopped {
		w.waits.cancel()
		w.waits.left = 0
	}
}

// waitFor is kernel.Poller's Wait, for some sources: no time passes but that of the simulation.
func (w *world) waitFor(members []*source, until time.Time, ready func(woken bool) bool) error {
	w.waits.interrupted = false
	w.woken(members)
	if ready(false) {
		return nil
	}
	if !until.IsZero() && time.Until(until) < longest {
		w.waits.cancel() // it would look again by itself
		return os.ErrDeadlineExceeded
	}
	w.waits.since = w.kernel.steps
	for w.waits.left > 0 {
		w.pause()
		w.fresh()
		if w.waits.interrupted { // as a deadline that is over would, but none is
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

// woken reports whether the kernel has woken these since the last call.
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

// overslept checks that nothing has been committed that wakes nobody, but what lies behind a record that is busy, or held.
func (w *world) overslept() error {
	if w.Mutant == EarlyHeads {
		return nil // the stream cannot see what it is woken for
	}
	for _, r := range w.truth.pending {
		if src := r.to; src.bufs != nil && !src.out && r.step > w.waits.since && !w.truth.isBehind(r) {
			return fmt.Errorf("%w: %v: nobody is woken for a record of time %d: its ring has its tail at %#x, and it is at %#x", ErrDelayed, src, r.key, src.tail(r.ring), r.off)
		}
	}
	return nil
}

// isBehind reports whether a record that is busy, or not delivered, lies before one in its ring.
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

// wakes has a value when the kernel has woken the source's reader.
func (src *source) wakes() <-chan struct{} {
	if src.bufs != nil {
		return src.bufs.Wakes()
	}
	return src.perf.Wakes()
}

// group is the sources that are waited for together: the world's members.
type group struct{ *world }

// Add takes one in, unless it is refused.
func (g group) Add(k seam.Kernel) error {
	if g.refusing && g.Mutant != Forgotten {
		return errRefused
	}
	if !g.refusing {
		g.members = append(g.members, sourceOf(k))
	}
	return nil
}

// Remove takes one out. It must not be freed.
func (g group) Remove(k seam.Kernel) {
	g.members = slices.DeleteFunc(g.members, func(src *source) bool { return src == sourceOf(k) })
}

// Close has nothing to close.
func (g group) Close() { g.members = nil }

// Wait is the world's.
func (g group) Wait(until time.Time, ready func(woken bool) bool) error {
	return g.waitFor(g.members, until, ready)
}

// Interrupt does nothing, as contexts call it from goroutines of their own: see meddled.
func (g group) Interrupt() {}

// awaited checks that the stream waits for its sources, and for nothing else.
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

// source is whose kernel it is. Nobody asks for one that has been freed.
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

// Wait is the world's, for one source.
func (k *seen) Wait(until time.Time, ready func(woken bool) bool) error {
	return k.src.world.waitFor([]*source{k.source()}, until, ready)
}

// Interrupt is the group's.
func (k *seen) Interrupt() {}
