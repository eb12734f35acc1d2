package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ringfold/ringfold/perfbuf"
)

// change is a requested Add or Remove of a source.
type change struct {
	src *source
	in  bool
}

var errRefused = errors.New("the kernel has no descriptor left")

// meddle adds and removes sources and requests flushes, at any point of the user's work.
func (w *world) meddle() {
	for w.failure == nil && !w.finishing && !w.changer.stopped {
		for range w.sched.IntN(100) {
			w.changer.pause()
		}
		if w.Mutant == Meddling {
			w.stream.ForEach(func(ev perfbuf.Event) error { w.changer.pause(); return w.deliver(ev) })
		}
		if err := w.meddled(); err != nil && w.failure == nil {
			w.failure = err
		}
	}
}

// meddled requests one flush or one change. The user may be in a pass or a wait.
func (w *world) meddled() error {
	if w.sched.IntN(4) == 0 {
		return w.flush()
	}
	if !w.Changes || w.draining || len(w.changing) > 0 {
		return nil
	}
	w.waits.interrupted = true
	if err := w.ask(); err != nil || w.using {
		return err
	}
	return w.made()
}

// ask requests a change. If the user is in a pass or a wait, the change takes effect at its end.
func (w *world) ask() error {
	src := w.sources[w.sched.IntN(len(w.sources))]
	if src.out {
		return w.askToAdd(src)
	}
	src.leaves = true
	if err := w.stream.Remove(src.reader); err != nil {
		return fmt.Errorf("%w: %v: Remove: %w", ErrRest, src, err)
	}
	w.changing = append(w.changing, &change{src, false})
	if w.Mutant != KeptTail && w.sched.IntN(3) == 0 { // at once, while the stream may still read it
		src.closed = true
		src.reader.Close()
	}
	return nil
}

// askToAdd adds a source that is out, with a new reader if the last one was closed. Now and then
// the kernel has no descriptor for it.
func (w *world) askToAdd(src *source) error {
	if src.closed {
		if err := src.open(); err != nil {
			return err
		}
	}
	w.refusing = w.sched.IntN(4) == 0
	err := w.stream.Add(src.reader)
	refused := w.refusing
	w.refusing = false
	switch {
	case errors.Is(err, errRefused):
		if err := src.read(w.alone); err != nil {
			return fmt.Errorf("%w: %v, which could not be added: %w", ErrRest, src, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("%w: %v: Add: %w", ErrRest, src, err)
	case refused && w.members != nil && !slices.Contains(w.members, src):
		return fmt.Errorf("%w: %v: Add says nothing, and the kernel does not wake the stream for it", ErrRest, src)
	}
	w.changing = append(w.changing, &change{src, true})
	return nil
}

// change changes the sources once, and reads some of those that are out.
func (w *world) change() error {
	if len(w.changing) > 0 {
		return nil
	}
	tails := make([][]uint64, len(w.sources))
	for i, src := range w.sources {
		for ring := range src.rings() {
			tails[i] = append(tails[i], src.tail(ring))
		}
	}
	if err := w.ask(); err != nil {
		return err
	}
	if err := w.made(); err != nil {
		return err
	}
	for _, src := range w.sources {
		if src.out && !src.closed && w.sched.IntN(2) == 0 { // the stream gave it back
			if err := src.read(w.alone); err != nil {
				return fmt.Errorf("%w: %v, which is out: %w", ErrRest, src, err)
			}
		}
	}
	if w.Mutant == KeptTail {
		for i, src := range w.sources {
			for ring, tail := range tails[i] {
				if src.out {
					src.setTail(ring, tail)
				}
			}
		}
	}
	return nil
}

// read reads a source that is out, without order.
func (src *source) read(f func(perfbuf.Event) error) error {
	s, err := src.reader.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.ForEach(f)
}

// alone accounts for an event of a source that is out.
func (w *world) alone(ev perfbuf.Event) error {
	switch ev.Kind() {
	case perfbuf.KindSample:
		r, err := w.truth.known(ev)
		if err == nil {
			w.truth.taken(r)
		}
		return err
	case perfbuf.KindLost:
		w.truth.gaps++
		w.truth.of(ev).losses[ev.CPU()].reported += ev.Lost()
		return nil
	case perfbuf.KindFlushed:
		return fmt.Errorf("%w: the stream's marker comes from a source that is out", ErrWatermark)
	}
	return fmt.Errorf("%w: %v", ErrSample, ev.Err())
}

// made settles the accounts of completed changes.
func (w *world) made() error {
	asked := w.changing
	w.changing = nil
	for _, c := range asked {
		src := c.src
		src.out, src.scans = !c.in, [2]uint64{}
		if c.in {
			src.since = max(w.stream.Watermark(), w.truth.last.key)
			continue
		}
		for _, ring := range src.busy {
			for _, o := range ring {
				o.scanned = 0
			}
		}
		src.gone(w.truth)
		if src.closed {
			src.retire()
		}
	}
	return w.awaited()
}

// rejoin adds all sources that are out.
func (w *world) rejoin() error {
	for _, src := range w.sources {
		if !src.out {
			continue
		}
		if src.closed {
			if err := src.open(); err != nil {
				return err
			}
		}
		if err := w.stream.Add(src.reader); err != nil {
			return err
		}
		src.out, src.since = false, max(w.stream.Watermark(), w.truth.last.key)
	}
	return w.awaited()
}

// flush requests a marker.
func (w *world) flush() error {
	w.flushes = append(w.flushes, w.kernel.clock)
	w.asked++
	w.waits.interrupted = true
	if w.Mutant == LostFlush && len(w.changing) > 0 {
		return nil
	}
	return w.stream.Flush()
}

// answered drops the flushes that a marker answers: those requested by its time.
func (w *world) answered(time uint64) {
	w.flushes = slices.DeleteFunc(w.flushes, func(at uint64) bool { return at <= time })
}

// unanswered checks that a complete pass has answered all flushes that it could answer. One marker
// answers them together, so it checks nothing if the pass saw another request. The watermark may be
// older than a source, whose events come before the marker.
func (w *world) unanswered(asked int) error {
	at := w.stream.Watermark()
	if n := len(w.flushes); n > 0 && w.asked == asked && max(w.flushes[n-1], w.truth.last.key) <= at {
		for _, r := range w.truth.pending {
			if r.key <= at && r.excused() && !r.to.out {
				return nil
			}
		}
		return fmt.Errorf("%w: it is %d, and a flush of %d has not been answered", ErrWatermark, at, w.flushes[n-1])
	}
	return nil
}
