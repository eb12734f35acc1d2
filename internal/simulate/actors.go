package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/perfbuf"
)

var errStopped = errors.New("the simulation is over")

// rounds makes the barrier's rounds on request.
func (w *world) rounds() {
	for !w.waiter.stopped {
		b := w.barrier
		if b == nil || !b.Requested() {
			w.lookAll() // otherwise nobody would ever ask for a round
			w.showAll()
			w.waiter.pause()
			continue
		}
		w.began, w.starting = w.kernel.clock, true
		w.lookAll()
		if b.Round() != nil {
			continue
		}
		w.showAll()
		if b == w.barrier && w.Mutant.delivers() && w.Skew <= grace.DefaultGuard {
			w.covered = w.began - grace.DefaultGuard - 1
		}
		w.waiter.pause()
	}
}

// grace waits for a grace period. While Drain or Close waits, only the kernel makes steps; while
// the barrier waits, everything else goes on.
func (w *world) grace() error {
	if w.waiter == nil || !w.waiter.running {
		if w.Mutant != Hasty || w.finishing {
			w.await(w.kernel.step)
		}
		w.lookAll() // so that nothing is missing at the end
		w.showAll()
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

// await repeats something until a grace period is over.
func (w *world) await(something func()) {
	for g := w.kernel.Grace(); !g.Over(); {
		if w.waiter != nil && w.waiter.running && w.waiter.stopped {
			return
		}
		something()
	}
}

// clock is the clock of the reader and of the barrier.
func (w *world) clock() uint64 {
	if w.starting && w.waiter.running {
		w.starting = false
		if w.Mutant == LateClock {
			w.await(w.waiter.pause)
		}
	}
	return w.kernel.clock
}

// pause interleaves the reader's steps with those of the other actors.
func (w *world) pause() {
	if w.Mutant == EarlyTail && w.consumer.running && w.sched.IntN(64) == 0 {
		src := w.sources[w.sched.IntN(len(w.sources))]
		i := w.sched.IntN(src.rings())
		src.setTail(i, src.head(i))
	}
	w.waited()
	for _, src := range w.sources {
		if w.Mutant != LateTail || w.waits.cancel == nil {
			src.commit()
		}
		src.poison()
	}
	w.fresh()
	switch {
	case w.consumer == nil:
	case w.consumer.running && !w.consumer.stopped:
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
		if w.sched.IntN(4) == 0 { // busy with other work
			for range w.sched.IntN(40) {
				w.pause()
			}
		}
		if w.Changes && w.sched.IntN(16) == 0 {
			if w.failure = w.change(); w.failure != nil {
				return
			}
		}
		if len(w.truth.pending) == 0 || w.sched.IntN(4) == 0 {
			if w.failure = w.wait(); w.failure != nil {
				return
			}
		}
		if w.sched.IntN(64) == 0 {
			if w.failure = w.drainBesides(); w.failure != nil {
				return
			}
		}
		w.failure = w.pass()
		w.pause()
	}
}

// drainBesides drains while programs keep running.
func (w *world) drainBesides() error {
	before := w.kernel.clock
	w.draining = true // it uses the stream twice, so a change could happen at either end
	err := w.stream.Drain(context.Background(), w.deliver)
	w.draining = false
	if at := w.stream.Watermark(); err == nil && at < before {
		err = fmt.Errorf("%w: it is %d after a Drain at %d", ErrWatermark, at, before)
	}
	if err == nil {
		err = w.truth.complete(w.watermark())
	}
	return err
}

// pass makes one pass of the user and checks it.
func (w *world) pass() error {
	w.passes++
	left := -1 // events until an early stop
	if w.sched.IntN(3) == 0 {
		left = w.sched.IntN(50)
	}
	stopped := false
	handed := uint64(0)
	f := func(ev perfbuf.Event) error {
		handed++
		if err := w.deliver(ev); err != nil {
			return err
		}
		if w.sched.IntN(8) == 0 {
			w.pause()
		}
		if w.sched.IntN(500) == 0 {
			if err := w.meddled(); err != nil {
				return err
			}
		}
		if left--; left == -1 {
			stopped = true
			return perfbuf.ErrStop
		}
		return nil
	}
	for _, src := range w.sources {
		if !src.out {
			src.scans = [2]uint64{src.scans[1], w.kernel.clock}
		}
	}
	due, flushes := w.due(), w.asked
	var err error
	w.using = true
	if w.sched.IntN(2) == 0 {
		err = w.stream.ForEach(f)
	} else {
		n, e := perfbuf.Fold(w.stream, 1, func(n uint64, ev perfbuf.Event) (uint64, error) { return n + 1, f(ev) })
		if err = e; err == nil && n != 1+handed {
			err = fmt.Errorf("%w: Fold of %d events from 1 on ends with %d", ErrCounts, handed, n)
		}
	}
	w.using = false
	if e := w.made(); err == nil {
		err = e
	}
	if err == nil && !stopped {
		if err = w.truth.due(due); err == nil {
			err = w.unanswered(flushes)
		}
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

// due is the time up to which a pass that begins now must deliver everything, even if CPUs are
// idle.
func (w *world) due() uint64 {
	switch {
	case w.exact():
		due := w.kernel.clock - grace.DefaultGuard - 1
		for _, src := range w.sources {
			if !src.out && src.proven() || w.barrier != nil {
				due = min(due, w.covered)
			}
			if !src.out && src.Stamped {
				due = min(due, src.due())
			}
		}
		if w.Skew > grace.DefaultGuard || !w.Mutant.delivers() {
			return 0
		}
		return due
	case w.Stream.DropLate || w.kernel.running() || w.kernel.asleep():
		return 0 // a slack promises nothing about unpublished records
	}
	return w.kernel.clock - uint64(w.Slack) - w.Skew - 1
}

// watermark is the stream's claim, or the barrier's if the mutant boasts.
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
		w.answered(ev.Time())
		if ev.Time() < max(at, w.truth.last.key) || ev.Time() > at {
			return fmt.Errorf("%w: %s, after one of %d, and it is %d", ErrWatermark, describe(ev), w.truth.last.key, at)
		}
		return w.truth.complete(at)
	}
	if ev.Kind() == perfbuf.KindSample && ev.Time() <= at && w.exact() && !w.truth.mayExcuse(ev) {
		return fmt.Errorf("%w: %s comes when it is %d", ErrWatermark, describe(ev), at)
	}
	if w.Delivered != nil {
		w.Delivered(ev)
	}
	return w.truth.deliver(ev, w.stream.Watermark())
}

// frugal checks that copies stay within the spill budget.
func (w *world) frugal() error {
	budget := uint64(max(0, w.stream.Options().Spill.Bytes))
	if used := w.spilled(); used > budget {
		return fmt.Errorf("%w: %d of %d", ErrArena, used, budget)
	}
	return nil
}
