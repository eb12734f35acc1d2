package engine

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/grace"
)

// prove makes the barrier that an exact stream needs for a reader's times, or returns nil if it
// needs no new one. programs reports whether the barrier waits for whole programs.
func (s *Stream) prove(r *Reader) (b *grace.Barrier, programs bool, err error) {
	s.mu.Lock()
	programs = s.programs || r.opts.OwnTimes
	has := !s.opts.Order.Exact || r.opts.Stamped || s.barrier != nil && s.programs == programs
	s.mu.Unlock()
	if has {
		return nil, programs, nil
	}
	p, err := r.kernel.Grace(grace.Options{Allow: s.opts.Barriers, Programs: programs})
	if err != nil {
		return nil, programs, fmt.Errorf("perfbuf.Stream: exact mode cannot prove completeness here (Slack(d) needs no proof, and gives none): %w", err)
	}
	b = grace.New(p, s.clock.now, grace.BarrierOptions{Interval: max(s.opts.Order.Interval, 0)})
	if stepped := r.Parts.Stepped; stepped != nil {
		stepped.Drive(b)
	} else {
		b.Start()
	}
	grace.CloseAfter(s, b)
	return b, programs, nil
}

// setBarrier replaces the barrier. The caller holds mu.
func (s *Stream) setBarrier(b *grace.Barrier, programs bool) {
	if s.barrier != s.Order.Barrier() { // not in use yet
		s.barrier.Close()
	}
	s.barrier, s.programs = b, programs
	for _, src := range s.wanted {
		src.reader.Barrier.Store(b)
	}
}
