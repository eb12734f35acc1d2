package simulate

import (
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/perfbuf"
)

var errStopped = errors.New("the simulation is over")

// rounds makes the rounds that are requested of the barrier.
func (w *world) rounds() {
	for !w.waiter.stopped {
		if w.barrier == nil || !w.barrier.Requested() {
			if w.pretence != nil { // or nobody would ever ask for a round
				w.pretence.look()
				w.pretence.show()
			}
			w.waiter.pause()
			continue
		}
		w.began, w.starting = w.kernel.clock, true
		if w.pretence != nil {
			w.pretence.look()
		}
		if w.barrier.Round() != nil {
			continue
		}
		if w.pretence != nil {
			w.pretence.show()
		}
		if w.Mutant == None && w.Skew <= grace.DefaultGuard {
			w.covered = w.began - grace.DefaultGuard - 1
		}
		w.waiter.pause()
	}
}

// grace is a wait for a grace period: the barrier's, or Drain's and Close's, during which only the
// kernel goes on.
func (w *world) grace() error {
	if w.waiter == nil || !w.waiter.running {
		w.await(w.kernel.step)
		if w.pretence != nil { // even so, nothing is missing at the end
			w.pretence.look()
			w.pretence.show()
		}
		return nil
	}
	if w.Mutant != Lying && w.Mutant != LateClock {
		w.await(w.waiter.pause)
	}
	if w.waiter.stopped {
		return errStopped
	}
	return nil
}

// await does something until a grace period is over.
func (w *world) await(something func()) {
	for g := w.kernel.Grace(); !g.Over(); {
		if w.waiter != nil && w.waiter.running && w.waiter.stopped {
			return
		}
		something()
	}
}

// clock is the reader's, and the barrier's.
func (w *world) clock() uint64 {
	if w.starting && w.waiter.running {
		w.starting = false
		if w.Mutant == LateClock {
			w.await(w.waiter.pause)
		}
	}
	return w.kernel.clock
}

// pause is where the reader's steps and those of others interleave.
func (w *world) pause() {
	if w.Mutant == EarlyTail && w.consumer.running && w.sched.IntN(64) == 0 {
		ring := w.kernel.buffer.Ring(w.sched.IntN(w.CPUs))
		ring.SetTail(ring.Raw().Head())
	}
	if w.pretence != nil {
		w.pretence.commit()
	}
	w.kernel.buffer.Poison()
	switch {
	case w.consumer == nil:
	case w.consumer.running:
		w.consumer.pause()
	default:
		for range w.sched.IntN(4) {
			w.kernel.step()
		}
	}
}

// consume is the user's loop.
func (w *world) consume() {
	for w.failure == nil && !w.finishing && !w.consumer.stopped {
		if w.sched.IntN(4) == 0 { // works on something else
			for range w.sched.IntN(40) {
				w.pause()
			}
		}
		w.failure = w.pass()
		w.pause()
	}
}

// pass is one of the user's, checked.
func (w *world) pass() error {
	w.passes++
	left := -1 // events until an early stop
	if w.sched.IntN(3) == 0 {
		left = w.sched.IntN(50)
	}
	stopped := false
	f := func(ev perfbuf.Event) error {
		if err := w.deliver(ev); err != nil {
			return err
		}
		if w.sched.IntN(8) == 0 {
			w.pause()
		}
		if left--; left == -1 {
			stopped = true
			return perfbuf.ErrStop
		}
		return nil
	}
	due := w.due()
	var err error
	if w.sched.IntN(2) == 0 {
		err = w.stream.ForEach(f)
	} else {
		before := w.truth.handed()
		n, e := perfbuf.Fold(w.stream, before, func(n uint64, ev perfbuf.Event) (uint64, error) { return n + 1, f(ev) })
		if err = e; err == nil && n != w.truth.handed() {
			err = fmt.Errorf("%w: Fold of %d events from %d on ends with %d", ErrCounts, w.truth.handed()-before, before, n)
		}
	}
	if err == nil && !stopped {
		err = w.truth.due(due)
		if at := w.stream.Watermark(); err == nil && w.exact() && at < due {
			err = fmt.Errorf("%w: it is %d, and all up to %d was due", ErrWatermark, at, due)
		}
	}
	if err == nil {
		err = w.truth.complete(w.watermark())
	}
	if err == nil && w.passes%16 == 0 {
		err = w.frugal()
	}
	return err
}

// due is the time up to which the pass that begins now has to deliver everything, whatever any CPU
// does or does not do.
func (w *world) due() uint64 {
	switch {
	case w.exact():
		return w.covered
	case w.Stream.DropLate || w.kernel.running():
		return 0 // a slack promises nothing of what is not published
	}
	return w.kernel.clock - uint64(w.Slack) - w.Skew - 1
}

// watermark is what the stream claims.
func (w *world) watermark() uint64 {
	if w.Mutant == Boasting {
		return max(w.stream.Watermark(), w.barrier.Watermark())
	}
	return w.stream.Watermark()
}

func (w *world) deliver(ev perfbuf.Event) error {
	at := w.watermark()
	if ev.Kind() == perfbuf.KindFlushed {
		w.truth.markers++
		if ev.Time() < max(at, w.truth.last.key) || ev.Time() > at && !w.draining {
			return fmt.Errorf("%w: %s, after one of %d, and it is %d", ErrWatermark, describe(ev), w.truth.last.key, at)
		}
		if w.draining && w.exact() { // all is complete
			return w.truth.due(ev.Time())
		}
		return w.truth.complete(at)
	}
	if ev.Kind() == perfbuf.KindSample && ev.Time() <= at && w.exact() {
		return fmt.Errorf("%w: %s comes when it is %d", ErrWatermark, describe(ev), at)
	}
	if w.Delivered != nil {
		w.Delivered(ev)
	}
	return w.truth.deliver(ev)
}

// frugal checks that copies keep to the budget.
func (w *world) frugal() error {
	budget := uint64(max(0, w.stream.Options().Spill.Bytes))
	if used := w.reader.Stats().SpillUsed; used > budget {
		return fmt.Errorf("%w: %d of %d", ErrArena, used, budget)
	}
	return nil
}
