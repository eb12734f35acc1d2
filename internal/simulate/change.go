package simulate

import (
	"fmt"

	"github.com/ringfold/ringfold/perfbuf"
)

// change is a source's coming or going that the stream was asked for.
type change struct {
	src *source
	in  bool
}

// ask asks for a change. Within the function that events are handed to, it is made by the next pass.
func (w *world) ask() error {
	src := w.sources[w.sched.IntN(len(w.sources))]
	c := &change{src, src.out}
	if c.in {
		if err := w.stream.Add(src.reader); err != nil {
			return fmt.Errorf("%w: %v: Add: %w", ErrRest, src, err)
		}
	} else {
		src.leaves = true
		if err := w.stream.Remove(src.reader); err != nil {
			return fmt.Errorf("%w: %v: Remove: %w", ErrRest, src, err)
		}
	}
	w.changing = append(w.changing, c)
	return nil
}

// change makes one, and reads what is out.
func (w *world) change() error {
	if len(w.changing) > 0 {
		return nil // the next pass makes those
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
	w.took(w.take())
	for _, src := range w.sources {
		if src.out && w.sched.IntN(2) == 0 { // it is given back, so it can be read in another way
			if err := src.reader.ForEach(w.alone); err != nil {
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

// alone takes an event of a source that is out.
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
	}
	return fmt.Errorf("%w: %v", ErrSample, ev.Err())
}

// take takes note of the changes that are made next, or just were.
func (w *world) take() []*change {
	asked := w.changing
	w.changing = nil
	for _, c := range asked {
		c.src.out = !c.in
		c.src.scans = [2]uint64{}
		if c.in {
			c.src.since = max(w.stream.Watermark(), w.truth.last.key)
			continue
		}
		for _, ring := range c.src.busy {
			for _, o := range ring {
				o.scanned = 0
			}
		}
	}
	return asked
}

// took settles accounts of changes that have been made.
func (w *world) took(asked []*change) {
	for _, c := range asked {
		if !c.in {
			c.src.gone(w.truth)
		}
	}
}

// rejoin adds the sources that are out.
func (w *world) rejoin() error {
	for len(w.changing) > 0 {
		if err := w.pass(); err != nil {
			return err
		}
	}
	for _, src := range w.sources {
		if src.out {
			if err := w.stream.Add(src.reader); err != nil {
				return err
			}
			src.out, src.since = false, max(w.stream.Watermark(), w.truth.last.key)
		}
	}
	return nil
}
