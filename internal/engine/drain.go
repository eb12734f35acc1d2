package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/stream"
)

// Drain begins a round that delivers all output up to now, including that of running programs. That
// is everything if the programs are detached. It waits until no older output can come, and leaves
// later output of other programs. The caller becomes the stream's user.
func (s *Stream) Drain(ctx context.Context) error {
	if s.Order == nil {
		if _, err := s.quiesce(ctx); err != nil {
			return err
		}
		return s.Begin()
	}
	called := s.clock.now()
	waited, err := s.quiesceAll(ctx)
	if err != nil {
		return err
	}
	if err := s.acquire(); err != nil {
		return err
	}
	upTo := s.Order.Extent()
	if stream.Covered(waited) < upTo { // programs kept writing
		s.release()
		if waited, err = s.quiesceAll(ctx); err != nil {
			return err
		}
		if err := s.acquire(); err != nil {
			return err
		}
	}
	for {
		again := s.Order.BeginDrain(called, waited, upTo)
		if again == 0 {
			return nil
		}
		err := s.Order.Sleep(ctx, again, s.gone)
		s.release()
		if err == nil {
			err = s.acquire()
		}
		if err != nil {
			return err
		}
	}
}

// quiesceAll starts quiesce so late that it covers all output from before the call, by any CPU's
// clock. A simulated kernel's clock may stand still.
func (s *Stream) quiesceAll(ctx context.Context) (since uint64, err error) {
	const both = 2*grace.DefaultGuard + 2
	until := s.clock.now() + both
	for s.stepped != nil && s.clock.now() < until && s.stepped.Yield() {
	}
	if s.clock.now() < until {
		time.Sleep(both)
	}
	return s.quiesce(ctx)
}

// quiesce waits until every running program has ended. since is when the wait began.
func (s *Stream) quiesce(ctx context.Context) (since uint64, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if s.halt.Load() { // start nothing that would outlive this call
		return 0, os.ErrClosed
	}
	since = s.clock.now()
	s.mu.Lock()
	b := s.barrier
	s.mu.Unlock()
	select {
	case err := <-grace.ProgramsEnded((*s.clock.of.Load()).Grace, s.opts.Barriers, b):
		if err != nil {
			return 0, fmt.Errorf("perfbuf: cannot wait for running programs (Stream.ForEachPending reads without waiting): %w", err)
		}
		return since, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-s.gone:
		return 0, os.ErrClosed
	}
}

// Shutdown begins a round that delivers all that is left in the rings, after it has taken them out
// of their maps and running programs have ended. end closes the stream and its readers, after the
// round.
func (s *Stream) Shutdown(ctx context.Context) (end func(), err error) {
	switch {
	case s.only != nil:
		return nil, fmt.Errorf("perfbuf.Shutdown: %w: call Reader.Pause, the Drain of each ring's Stream, and Reader.Close", errOneRing)
	case s.closing.Load():
		return nil, os.ErrClosed
	}
	s.mu.Lock()
	sources := s.wanted
	s.mu.Unlock()
	for _, src := range sources {
		if failed := src.reader.Pause(); !errors.Is(failed, errors.ErrUnsupported) { // as of a BPF ring buffer
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return nil, err
	}
	waited, err := s.quiesce(ctx)
	if err == nil {
		err = s.BeginAll(waited)
	}
	if err != nil {
		return nil, err
	}
	return func() {
		for _, src := range sources {
			src.reader.Close()
		}
		s.Close()
	}, nil
}
