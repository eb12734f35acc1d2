package perfbuf

import (
	"context"
	"fmt"
	"os"

	"github.com/ringfold/ringfold/internal/grace"
)

// waitForPrograms opens a way to wait for running programs. All that were running have ended when it
// returns. What the latest stream allowed holds.
func (r *Reader) waitForPrograms() (grace.Provider, error) {
	o := grace.Options{Programs: true, Once: true}
	if s := r.stream.Load(); s != nil {
		o.Allow = grace.Set(s.opts.Barriers)
	}
	if o.Allow == grace.NestLevels { // does not wait for programs; these interrupt as little
		o.Allow = grace.MapInMap | grace.Membarrier
	}
	return r.kernel.Grace(o)
}

// quiesce waits until every program that is running has ended. It returns when it began to.
func (r *Reader) quiesce(ctx context.Context) (since uint64, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	since = r.kernel.Now()
	select {
	case err := <-r.programsEnded():
		if err != nil {
			return 0, fmt.Errorf("perfbuf.Drain: cannot wait for running programs, ForEachPending does not: %w", err)
		}
		return since, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-r.gate.Done():
		return 0, os.ErrClosed
	}
}

// programsEnded says when every program that is running has ended, or why it cannot. The barrier of
// an open stream may do what cannot be opened any more, after the process has dropped privileges.
func (r *Reader) programsEnded() <-chan error {
	done := make(chan error, 1)
	go func() {
		p, err := r.waitForPrograms()
		if err == nil {
			err = p.Close()
		} else if b := r.barrier.Load(); b != nil && b.WaitsForPrograms() && b.Round() == nil {
			err = nil
		}
		done <- err
	}()
	return done
}

// Drain is [Reader.ForEach] for the end: after the caller has detached its programs, it waits until
// those that are still running have ended, and then calls f for all that the rings hold. Losses that
// no record has reported are not among that, but in Stats, after Close. It blocks for an RCU grace
// period: some ms as a rule, 0.1 ms once a stream has found [OpenTree] to work. Errors are those of ForEach, context.Cause(ctx), and what keeps it from
// waiting.
func (r *Reader) Drain(ctx context.Context, f func(Event) error) error {
	if _, err := r.quiesce(ctx); err != nil {
		return err
	}
	return r.ForEach(f)
}
