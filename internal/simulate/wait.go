package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	seam "github.com/ringfold/ringfold/internal/kernel"
)

// wait is a stream's wait, as the simulation sees it.
type wait struct {
	cancel context.CancelFunc // nil: the user does not wait
	left   int                // pauses until it is cancelled
	since  int                // the kernel's step when it fell asleep, until the kernel wakes it
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
	w.waits = wait{cancel: cancel, left: mostPauses}
	err := w.stream.Wait(ctx)
	w.waits = wait{}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, w.failure)
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

// Wait is kernel.Poller's, of a reader and of several: no time passes but that of the simulation.
func (w *world) Wait(until time.Time, ready func(woken bool) bool) error {
	w.woken()
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
		if w.woken() {
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

// Interrupt does nothing: the simulation has one thread.
func (w *world) Interrupt() {}

// woken reports whether the kernel has woken the stream since the last call.
func (w *world) woken() (woken bool) {
	for _, src := range w.sources {
		if src.out {
			continue
		}
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

// group is several kernels that are waited for.
type group struct{ *world }

func (group) Add(seam.Kernel) error { return nil }
func (group) Remove(seam.Kernel)    {}
func (group) Close()                {}

// Group waits for all sources.
func (k *seen) Group() (seam.Group, error) { return group{k.src.world}, nil }

// Wait is the world's.
func (k *seen) Wait(until time.Time, ready func(woken bool) bool) error {
	return k.src.world.Wait(until, ready)
}
