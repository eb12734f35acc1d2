package perfbuf

import (
	"fmt"
	"runtime"

	"github.com/ringfold/ringfold/internal/grace"
)

// ownTimes reports whether the reader's programs take the times of its events.
func (r *Reader) ownTimes() bool { return r.opts.Time.payload }

// prove sees to it that the stream, if it is exact, has a barrier that covers a reader's times.
func (s *Ordered) prove(r *Reader) error {
	s.mu.Lock()
	programs := s.programs || r.ownTimes()
	has := s.opts.Mode.guess || r.opts.Time.stamped || s.barrier != nil && s.programs == programs
	s.mu.Unlock()
	if has {
		return nil
	}
	p, err := r.kernel.Grace(grace.Options{Allow: grace.Set(s.opts.Barriers), Programs: programs})
	if err != nil {
		return fmt.Errorf("perfbuf.Ordered: exact mode cannot prove completeness here; Slack(d) needs no proof and gives none: %w", err)
	}
	b := grace.New(p, r.kernel.Now, grace.BarrierOptions{Interval: max(s.opts.BarrierInterval, 0)})
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
		s.order.SetBarrier(b)
		for _, src := range s.sources {
			src.reader.barrier.Store(b)
		}
	}); err != nil {
		b.Close()
	}
	return err
}
