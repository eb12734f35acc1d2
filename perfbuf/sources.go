package perfbuf

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/merge"
	"github.com/ringfold/ringfold/internal/order"
	"github.com/ringfold/ringfold/internal/wake"
)

// source is a reader of a stream.
type source struct {
	order.Source
	reader *Reader
}

// Merge opens one stream of the events of several readers, those that their rings hold and those to come, in the order
// of time. [Event.Source] says which reader an event is from. Each keeps its own options and statistics, and its losses
// come as its events. Of one reader, it is [Reader.Ordered].
//
// In exact mode no event of any of them is late: a barrier covers all programs, whatever they write to. Readers may be
// added and removed later: see [Ordered.Add]. Closing one of them ends the stream, with os.ErrClosed.
//
// Errors are invalid options, a reader or a map that is there twice, [ErrBusy] if rings are being read, and os.ErrClosed; no reader
// is claimed then. Exact mode also fails if the process has no way to wait for an RCU grace period. The error says what
// was tried: see [Barriers]. The first exact stream of a process blocks for 20 to 50 ms, in which it
// compares these and proves [OpenTree]; on a busy machine that takes up to 0.4 s. Later ones block for a
// grace period.
func Merge(o OrderOptions, readers ...*Reader) (*Ordered, error) {
	if len(readers) == 0 {
		return nil, errors.New("perfbuf.Merge: no reader is given: name one at least")
	}
	o, err := o.effective(readers)
	if err != nil {
		return nil, err
	}
	first := readers[0]
	s := &Ordered{opts: o, gone: make(chan struct{}), programs: slices.ContainsFunc(readers, (*Reader).ownTimes)}
	slack := o.Mode.slack
	if !o.Mode.guess {
		slack = grace.DefaultGuard // for sources that need no barrier
	}
	oo := order.Options{
		Interval: o.BarrierInterval, Slack: slack, DropLate: o.DropLate, FlushEvery: o.FlushEvery,
		Merge: merge.Options{Spill: max(o.Spill.Bytes, 0)}, Above: o.Spill.Above, Until: o.Spill.Until,
		Now: first.kernel.Now, Halt: &s.halt, Changed: &s.changed,
	}
	if first.stepped != nil {
		oo.Yield = first.stepped.Yield
	}
	s.order = order.New(oo)
	s.order.SetPass(&s.batch.pass, s.release)
	for _, r := range readers {
		if err = s.Add(r); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Ordered opens a stream of the events of this reader alone: see [Merge].
func (r *Reader) Ordered(o OrderOptions) (*Ordered, error) { return Merge(o, r) }

// Add makes a reader a source of the stream. Its events are delivered from the next pass on, those that its rings hold
// already too: what of them is older than the stream has come to is late. So add a reader before its programs are
// attached. Add may be called from anywhere at any time. It blocks for a grace period if the reader needs a barrier and the stream has none
// that covers it. Errors are those of [Merge], and os.ErrClosed of a closed stream.
func (s *Ordered) Add(r *Reader) error {
	if s.closing.Load() {
		return os.ErrClosed
	}
	if _, err := s.opts.effective([]*Reader{r}); err != nil {
		return err
	}
	if err := s.unlike(r); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	if err := r.walk.Claim(); err != nil {
		return err
	}
	src := &source{reader: r, Source: order.Source{
		Kernel: r.kernel, Rings: &r.walk, Counts: &r.counts.order,
		Wakeup:  order.Wakeup{Poll: r.opts.Wakeup.PollInterval, Enough: r.policy.Enough},
		Stamped: r.opts.Time.stamped && !s.opts.Mode.guess,
	}}
	if r.ringBuf { // it wakes at each event
		src.Wakeup.Poll = 0
	}
	if r.policy.Bell != nil {
		src.Wakeup.Armed = r.policy.Bell.AllArmed
	}
	if err := s.prove(r); err != nil {
		r.walk.Disclaim()
		return err
	}
	r.stream.Store(s)
	if s.barrier != nil {
		r.barrier.Store(s.barrier)
	}
	if r.walk.Closed() { // perhaps too early to know of the stream
		s.stop()
	}
	if err := s.change(func() {
		s.order.Add(&src.Source)
		s.sources = append(slices.Clone(s.sources), src)
	}); err != nil {
		r.stream.Store(nil)
		r.walk.Disclaim()
		return err
	}
	return nil
}

// unlike makes sure that a reader is no source yet, nor another reader of the same map.
func (s *Ordered) unlike(r *Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, name := r.kernel.Map()
	for _, src := range s.sources {
		if src.reader == r {
			return fmt.Errorf("perfbuf.Merge: a reader is given twice, that of map %q (id %d)", name, id)
		}
		if other, _ := src.reader.kernel.Map(); id != 0 && other == id {
			return fmt.Errorf("perfbuf.Merge: map %q (id %d) is read by two of the readers, of which only the later receives anything: open it once", name, id)
		}
	}
	return nil
}

// Remove takes a reader out of the stream. It drops those of its events that the stream has seen and not
// delivered, and counts them as dropped. To have them, end the programs' outputs first, as [Reader.Pause] does, and wait for
// the marker of a [Reader.Flush]. The reader stays open, and its rings may be read in other ways.
//
// Remove may be called from anywhere at any time, and does not block. A pass that is under way still delivers events of
// the reader. It is an error if the reader is not a source.
func (s *Ordered) Remove(r *Reader) error {
	if !r.stream.CompareAndSwap(s, nil) {
		return errors.New("perfbuf.Remove: the reader is no source of this stream")
	}
	s.change(func() {
		if r.enter() == nil { // else its end has done it
			s.detach(r)
			r.walk.Disclaim()
			r.gate.LeaveAtOnce()
		}
	})
	return nil
}

// change makes a change to the sources: now if nobody uses the stream, else by who does.
func (s *Ordered) change(f func()) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return os.ErrClosed
	}
	s.changes = append(s.changes, f)
	s.changed.Store(true)
	s.mu.Unlock()
	s.interrupt()
	if s.busy.CompareAndSwap(false, true) {
		if s.enter() == nil {
			s.release()
		} else {
			s.idle()
		}
	}
	return nil
}

// enter makes the changes that were asked for, and keeps the rings mapped. The caller has set busy.
func (s *Ordered) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return os.ErrClosed
	}
	if err := s.applyChanges(); err != nil {
		return err
	}
	for i, src := range s.sources {
		if err := src.reader.enter(); err != nil {
			for _, src := range s.sources[:i] {
				src.reader.gate.LeaveAtOnce()
			}
			return err
		}
	}
	s.inside = s.sources
	return nil
}

// applyChanges makes the changes, and has the stream wait for the sources that there are then. The caller holds mu.
func (s *Ordered) applyChanges() error {
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
		s.parts = append(s.parts, wake.Part{Rings: &src.Source, Policy: &src.reader.policy})
	}
	return s.regroup()
}

// regroup makes the stream wait for its sources. The caller holds mu.
func (s *Ordered) regroup() error {
	old := s.group
	s.group = nil
	var err error
	switch len(s.sources) {
	case 0:
		s.waker.Store(nil)
	case 1:
		s.waker.Store(s.sources[0].reader.waker)
	default:
		var others []kernel.Kernel
		for _, src := range s.sources[1:] {
			others = append(others, src.reader.kernel)
		}
		if s.group, err = s.sources[0].reader.kernel.Group(others); err == nil {
			s.waker.Store(wake.NewGroup(s.group))
		}
	}
	if old != nil {
		old.Close()
	}
	return err
}

// detach takes a reader's rings out of the order, if they are in it. The caller holds mu, and the rings are mapped.
func (s *Ordered) detach(r *Reader) {
	for i, src := range s.sources {
		if src.reader == r {
			s.order.Remove(&src.Source)
			s.sources = slices.Delete(slices.Clone(s.sources), i, i+1)
			s.changed.Store(true)
			return
		}
	}
}

// lose is detach at the end of a reader, whose rings are unmapped next. It has ended the stream.
func (s *Ordered) lose(r *Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach(r)
	s.closeBarrier()
}

func (s *Ordered) closeBarrier() {
	if s.barrier != nil {
		s.barrier.Close()
	}
}

// disband gives all sources back. The caller has set busy, for good.
func (s *Ordered) disband() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyChanges()
	s.ended = true
	for _, src := range s.sources {
		if r := src.reader; r.enter() == nil { // else it is closed too, and counts what was held
			s.detach(r)
			r.stream.Store(nil)
			r.walk.Disclaim()
			r.gate.LeaveAtOnce()
		}
	}
	if s.group != nil {
		s.group.Close()
	}
	s.closeBarrier()
}
