package perfbuf

import (
	"context"
	"fmt"
	"os"

	"github.com/ringfold/ringfold/internal/grace"
)

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

// programsEnded says when every program that is running has ended, or why it cannot. What the open stream allows holds.
func (r *Reader) programsEnded() <-chan error {
	var allow grace.Set
	if s := r.stream.Load(); s != nil {
		allow = grace.Set(s.opts.Barriers)
	}
	return grace.ProgramsEnded(r.kernel.Grace, allow, r.barrier.Load())
}

// quiesce waits for the programs of all sources.
func (s *Ordered) quiesce(ctx context.Context) (since uint64, err error) {
	if s.closing.Load() {
		return 0, os.ErrClosed
	}
	for _, src := range s.current() { // a grace period is for all
		return src.reader.quiesce(ctx)
	}
	return 0, nil
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
