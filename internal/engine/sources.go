package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/stream"
)

// source is a reader of a stream. One without a stream stands for the single rings that a waker
// waits for.
type source struct {
	stream.Source
	reader *Reader
	stream *Stream
}

// unread returns how many bytes of a ring the stream has not seen. An ordered stream reads ahead of
// the tails.
func (src *source) unread(ring int) uint64 {
	if src.stream != nil && src.stream.Order != nil {
		return src.Unread(ring)
	}
	return src.reader.Rings.Unread(ring)
}

// flushing reports whether the source's present contents are asked for, or the stream's sources are
// about to change.
func (src *source) flushing() bool {
	s := src.stream
	if s.Order != nil {
		return src.Flushing()
	}
	return src.reader.Rings.Flushing() || s.flushes.Load() != nil || s.changed.Load()
}

// ended reports whether the stream has ended, or the reader if its waker waits for single rings.
func (src *source) ended() bool {
	if src.stream == nil {
		return src.reader.Gate.Closed().Load()
	}
	return src.stream.halt.Load()
}

// Add claims a reader's rings and makes it a source. Errors are those of NewStream, or errOneRing,
// and change nothing.
func (s *Stream) Add(r *Reader) error {
	if err := r.Gate.Enter(); err != nil {
		return err
	}
	defer r.Gate.Leave()
	if s.halt.Load() {
		return os.ErrClosed
	}
	if err := s.unlike(r); err != nil {
		return err
	}
	if err := s.claim(r); err != nil {
		return err
	}
	b, programs, err := s.prove(r)
	if err == nil {
		err = s.enlist(r, b, programs)
	}
	switch {
	case err != nil:
		s.disclaim(r)
		if b != nil {
			b.Close()
		}
	case r.Gate.Closed().Load(): // its Close may have missed the stream
		s.stop()
	}
	return err
}

// enlist makes a reader, whose rings are claimed, a source. b is a barrier that it needs, or nil if
// the stream has one.
func (s *Stream) enlist(r *Reader, b *grace.Barrier, programs bool) error {
	id, name := r.Parts.Map()
	src := &source{reader: r, stream: s, Source: stream.Source{
		Name: fmt.Sprintf("map %q (id %d)", name, id), Lost: r.Parts.Lost, Rings: &r.Rings, Counts: &r.Counts,
		Wakeup:  stream.Wakeup{Poll: r.policy.interval, Enough: r.policy.enough},
		Stamped: r.opts.Stamped && s.opts.Order.Exact,
	}}
	if r.ringBuf { // each event wakes it
		src.Wakeup.Poll = 0
	}
	if r.policy.bell != nil {
		src.Wakeup.Armed = r.policy.bell.allArmed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halt.Load() {
		return os.ErrClosed
	}
	if err := s.waitFor(r.kernel); err != nil {
		return fmt.Errorf("perfbuf.Merge: the reader cannot be waited for together with the stream's others: %w", err)
	}
	s.wanted = append(s.wanted, src)
	s.hold(src)
	if b != nil {
		s.setBarrier(b, programs)
	} else if s.barrier != nil {
		r.Barrier.Store(s.barrier)
	}
	s.change()
	return nil
}

// waitFor makes wakeups of one more kernel wake the stream's waiter. The caller holds mu.
func (s *Stream) waitFor(k kernel.Kernel) error {
	if s.group != nil {
		return s.group.Add(k)
	}
	if len(s.wanted) == 0 {
		return nil // its own waker suffices
	}
	g, err := s.wanted[0].reader.kernel.Group()
	if err != nil {
		return err
	}
	if err = g.Add(k); err != nil {
		g.Close()
		return err
	}
	s.group, s.grouped = g, newGroupWaker(g)
	return nil
}

// Remove gives a reader back.
func (s *Stream) Remove(r *Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := r.source.Load()
	if !slices.Contains(s.wanted, src) {
		return errors.New("perfbuf.Remove: the reader is not a source of this stream")
	}
	s.dismiss(src)
	s.change()
	return nil
}

// unlike fails if a reader, or another reader of the same map, is a source already, and if the
// stream's only one is a ring.
func (s *Stream) unlike(r *Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.only != nil && len(s.wanted) > 0 {
		return fmt.Errorf("%w, to which no reader can be added: see Merge", errOneRing)
	}
	id, name := r.Parts.Map()
	for _, src := range s.wanted {
		if src.reader == r {
			return fmt.Errorf("perfbuf.Merge: the reader of map %q (id %d) is passed twice: pass it once", name, id)
		}
		switch otherID, otherName := src.reader.Parts.Map(); {
		case r.ringBuf && src.reader.ringBuf:
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

// ringBufs returns the ids of a reader's ring buffers.
func (r *Reader) ringBufs() []int {
	if shards := r.Parts.Hotplug; shards != nil {
		ids, _ := shards.Online() // unknown ids are not compared
		return ids
	}
	id, _ := r.Parts.Map()
	return []int{id}
}

// change applies the wanted sources: immediately if the stream is idle; otherwise its current user
// does it. The caller holds mu.
func (s *Stream) change() {
	s.changed.Store(true)
	if s.used {
		s.Interrupt()
	} else {
		s.settle()
	}
}

// settle applies the wanted sources. The caller holds mu, and the stream is idle.
func (s *Stream) settle() {
	if s.closing.Load() {
		s.disband()
	}
	if !s.changed.Swap(false) {
		return
	}
	if s.Order != nil {
		if old := s.Order.SetBarrier(s.barrier); old != nil {
			old.Close()
		}
	}
	for _, src := range s.sources {
		if !slices.Contains(s.wanted, src) {
			s.giveBack(src)
		}
	}
	for _, src := range s.wanted {
		if s.Order != nil && !slices.Contains(s.sources, src) {
			s.Order.Add(&src.Source)
		}
	}
	s.sources, s.rings = slices.Clone(s.wanted), nil
	for _, src := range s.sources {
		s.rings = append(s.rings, &src.reader.Rings)
	}
	switch {
	case len(s.sources) == 0:
		s.waker.Store(nil)
		return
	case s.group != nil:
		s.waker.Store(s.grouped)
	default:
		s.waker.Store(s.sources[0].reader.waker)
	}
	s.clock.set(s.sources[0].reader.kernel)
}

// dismiss removes a source from the wanted ones. The caller holds mu.
func (s *Stream) dismiss(src *source) {
	s.wanted = slices.DeleteFunc(slices.Clone(s.wanted), func(other *source) bool { return other == src })
	for _, other := range s.sources {
		if slices.Contains(s.wanted, other) {
			s.clock.set(other.reader.kernel) // before the group lets go of the one that it may be
			break
		}
	}
	if s.group != nil {
		s.group.Remove(src.reader.kernel)
	}
	if !slices.Contains(s.sources, src) { // not in use yet
		s.giveBack(src)
	}
}

// giveBack lets other streams read a reader's rings. The caller holds mu.
func (s *Stream) giveBack(src *source) {
	if s.Order != nil && slices.Contains(s.sources, src) {
		s.Order.Remove(&src.Source)
	}
	s.letGo(src)
	s.disclaim(src.reader)
}

// closed handles the end of a reader: it ends the stream, unless the reader is no longer wanted.
func (s *Stream) closed(src *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.wanted, src) {
		s.stop()
	}
}

// lose lets go of a reader before its rings are unmapped. The reader's end has stopped the stream.
// A user keeps its sources open, and gives unwanted ones back before it leaves.
func (s *Stream) lose(src *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.wanted, src) {
		return // already given back
	}
	s.dismiss(src)
	if slices.Contains(s.sources, src) {
		s.giveBack(src)
		s.sources = slices.DeleteFunc(slices.Clone(s.sources), func(other *source) bool { return other == src })
	}
	s.closeBarrier()
}

func (s *Stream) closeBarrier() {
	if s.barrier != nil {
		s.barrier.Close()
	}
}

// disband gives all sources back. The caller holds mu, and the stream is idle.
func (s *Stream) disband() {
	for _, src := range s.wanted {
		s.dismiss(src)
	}
	s.changed.Store(true)
	if s.group != nil {
		s.group.Close()
		s.group = nil
	}
	s.closeBarrier()
}
