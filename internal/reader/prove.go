package reader

import (
	"fmt"
	"runtime"

	"github.com/ringfold/ringfold/internal/grace"
)

// prove sees to it that the stream, if it is exact, has a barrier that covers a reader's times.
func (s *Stream) prove(r *Reader) error {
	s.mu.Lock()
	programs := s.programs || r.opts.OwnTimes
	has := !s.opts.Exact || r.opts.Stamped || s.barrier != nil && s.programs == programs
	s.mu.Unlock()
	if has {
		return nil
	}
	p, err := r.Kernel.Grace(grace.Options{Allow: s.opts.Barriers, Programs: programs})
	if err != nil {
		return fmt.Errorf("perfbuf.Ordered: exact mode cannot prove completeness here (Slack(d) needs no proof, and gives none): %w", err)
	}
	b := grace.New(p, r.Kernel.Now, grace.BarrierOptions{Interval: max(s.opts.Order.Interval, 0)})
	if r.stepped != nil {
		r.stepped.Drive(b)
	} else {
		b.Start()
	}
	runtime.AddCleanup(s, func(b *grace.Barrier) { b.Close() }, b) // which has a goroutine
	if err = s.change(func() {
		if s.barrier != nil {
			s.barrier.Close()
		}
		s.barrier, s.programs = b, programs
		s.Order.SetBarrier(b)
		for _, src := range s.sources {
			src.reader.Barrier.Store(b)
		}
	}); err != nil {
		b.Close()
	}
	return err
}
