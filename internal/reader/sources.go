package reader

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/wake"
)

// source is a reader of a stream.
type source struct {
	order.Source
	reader *Reader
}

// Readers returns those that are sources now.
func (s *Stream) Readers() (readers []*Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.sources {
		readers = append(readers, src.reader)
	}
	return readers
}

// Add claims a reader's rings and makes it a source. Errors are those of NewStream.
func (s *Stream) Add(r *Reader) error {
	if s.closing.Load() {
		return os.ErrClosed
	}
	if err := r.Gate.Enter(); err != nil {
		return err
	}
	defer r.Gate.Leave()
	if err := s.unlike(r); err != nil {
		return err
	}
	if err := r.Walk.Claim(); err != nil {
		return err
	}
	src := &source{reader: r, Source: order.Source{
		Kernel: r.Kernel, Rings: &r.Walk, Counts: &r.Counts,
		Wakeup:  order.Wakeup{Poll: r.Policy.Interval, Enough: r.Policy.Enough},
		Stamped: r.opts.Stamped && s.opts.Exact,
	}}
	if r.opts.RingBuf { // it wakes at each event
		src.Wakeup.Poll = 0
	}
	if r.Policy.Bell != nil {
		src.Wakeup.Armed = r.Policy.Bell.AllArmed
	}
	if err := s.prove(r); err != nil {
		r.Walk.Disclaim()
		return err
	}
	r.Stream.Store(s)
	s.mu.Lock()
	if s.barrier != nil {
		r.Barrier.Store(s.barrier)
	}
	s.mu.Unlock()
	if r.Walk.Closed() { // perhaps too early to know of the stream
		s.stop()
	}
	if err := s.change(func() {
		if r.Gate.Enter() != nil {
			return // closed meanwhile, and so is the stream
		}
		defer r.Gate.LeaveAtOnce()
		s.Order.Add(&src.Source)
		s.sources = append(slices.Clone(s.sources), src)
	}); err != nil {
		r.Stream.Store(nil)
		r.Walk.Disclaim()
		return err
	}
	return nil
}

// Remove gives a reader back.
func (s *Stream) Remove(r *Reader) error {
	if !r.Stream.CompareAndSwap(s, nil) {
		return errors.New("perfbuf.Remove: the reader is not a source of this stream")
	}
	s.change(func() {
		if r.Gate.Enter() == nil { // else its end has done it
			s.detach(r)
			r.Walk.Disclaim()
			r.Gate.LeaveAtOnce()
		}
	})
	return nil
}

// unlike makes sure that a reader is no source yet, nor another reader of the same map. The reader is open, and so are sources while mu is held.
func (s *Stream) unlike(r *Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, name := r.Kernel.Map()
	for _, src := range s.sources {
		if src.reader == r {
			return fmt.Errorf("perfbuf.Merge: the reader of map %q (id %d) is passed twice: pass it once", name, id)
		}
		switch otherID, otherName := src.reader.Kernel.Map(); {
		case r.opts.RingBuf && src.reader.opts.RingBuf:
			if slices.ContainsFunc(r.ringBufs(), func(id int) bool { return id != 0 && slices.Contains(src.reader.ringBufs(), id) }) {
				return fmt.Errorf("perfbuf.Merge: the readers of map %q (id %d) and map %q (id %d) share a ring buffer, and each misses what the other reads: open it once",
					name, id, otherName, otherID)
			}
		case id != 0 && otherID == id:
			return fmt.Errorf("perfbuf.Merge: map %q (id %d) has two of the readers, and only the later one receives events: open it once", name, id)
		}
	}
	return nil
}

// ringBufs are the ids of the ring buffers that a reader reads.
func (r *Reader) ringBufs() []int {
	if shards, ok := r.Kernel.(kernel.Hotplug); ok {
		ids, _ := shards.Online() // what cannot be seen now is not compared
		return ids
	}
	id, _ := r.Kernel.Map()
	return []int{id}
}

// change makes a change to the sources: now if nobody uses the stream, else by who does.
func (s *Stream) change(f func()) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return os.ErrClosed
	}
	s.changes = append(s.changes, f)
	s.changed.Store(true)
	s.mu.Unlock()
	s.Interrupt()
	if s.busy.CompareAndSwap(false, true) {
		if s.enter() == nil {
			s.Release()
		} else {
			s.idle()
		}
	}
	return nil
}

// enter makes the changes that were asked for, and keeps the rings mapped. The caller has set busy.
func (s *Stream) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return os.ErrClosed // disband makes them
	}
	if err := s.applyChanges(); err != nil {
		s.changed.Store(true) // so that it is tried again
		return err
	}
	if s.halt.Load() {
		return os.ErrClosed
	}
	for i, src := range s.sources {
		if err := src.reader.Gate.Enter(); err != nil {
			for _, src := range s.sources[:i] {
				src.reader.Gate.LeaveAtOnce()
			}
			return err
		}
	}
	s.inside = s.sources
	return nil
}

// applyChanges makes the changes, and has the stream wait for the sources that there are then. The caller holds mu.
func (s *Stream) applyChanges() error {
	if !s.changed.Load() {
		return nil
	}
	s.changed.Store(false)
	for _, f := range s.changes {
		f()
	}
	s.changes = nil
	s.parts = nil
	for _, src := range s.sources {
		s.parts = append(s.parts, wake.Part{Rings: &src.Source, Policy: &src.reader.Policy})
	}
	return s.regroup()
}

// regroup makes the stream wait for its sources. The caller holds mu.
func (s *Stream) regroup() error {
	old := s.group
	s.group = nil
	var err error
	switch len(s.sources) {
	case 0:
		s.waker.Store(nil)
	case 1:
		s.waker.Store(s.sources[0].reader.Waker)
	default:
		var others []kernel.Kernel
		for _, src := range s.sources[1:] {
			others = append(others, src.reader.Kernel)
		}
		if s.group, err = s.sources[0].reader.Kernel.Group(others); err == nil {
			s.waker.Store(wake.NewGroup(s.group))
		}
	}
	if old != nil {
		old.Close()
	}
	return err
}

// detach takes a reader's rings out of the order, if they are in it. The caller holds mu, and the rings are mapped.
func (s *Stream) detach(r *Reader) {
	for i, src := range s.sources {
		if src.reader == r {
			s.Order.Remove(&src.Source)
			s.sources = slices.Delete(slices.Clone(s.sources), i, i+1)
			s.changed.Store(true)
			return
		}
	}
}

// lose is detach at the end of a reader, whose rings are unmapped next. It has ended the stream.
func (s *Stream) lose(r *Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach(r)
	s.closeBarrier()
}

func (s *Stream) closeBarrier() {
	if s.barrier != nil {
		s.barrier.Close()
	}
}

// disband gives all sources back. The caller has set busy, for good.
func (s *Stream) disband() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyChanges()
	s.ended = true
	for _, src := range s.sources {
		if r := src.reader; r.Gate.Enter() == nil { // else it is closed too, and counts what was held
			s.detach(r)
			r.Stream.Store(nil)
			r.Walk.Disclaim()
			r.Gate.LeaveAtOnce()
		}
	}
	if s.group != nil {
		s.group.Close()
	}
	s.closeBarrier()
}
