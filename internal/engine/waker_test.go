package engine

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/stream"
	"github.com/stretchr/testify/require"
)

func (f *fake) requireIdle(t *testing.T) {
	t.Helper()
	require.False(t, f.waker.waiting.Load())
	require.False(t, f.waker.each.serving)
	n, ended := f.Waiters()
	require.Zero(t, n)
	require.Empty(t, ended)
}

// A wakeup with something to read, the poll interval, a flush, a context, or the end of the rings
// ends a wait for all rings. Nothing else does.
func TestWait(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(r *fake, cancel func())
		err   error
		after time.Duration
		count WaitCounts
	}{
		"a wakeup":          {func(r *fake, _ func()) { r.hold(1, 8); r.kernel.Wake() }, nil, 0, WaitCounts{Wakes: 1}},
		"an interrupt":      {func(r *fake, _ func()) { r.hold(0, 64); r.kernel.Interrupt() }, nil, 0, WaitCounts{Timer: 1}},
		"the poll interval": {func(r *fake, _ func()) { r.hold(1, 8) }, nil, time.Second, WaitCounts{Timer: 1}},
		"a spurious wakeup": {func(r *fake, _ func()) { r.kernel.Wake(); synctest.Wait(); r.hold(1, 8) }, nil, time.Second, WaitCounts{Wakes: 1, Spurious: 1, Timer: 1}},
		"a flush":           {func(r *fake, _ func()) { r.stream.flushes.Ask(1); r.kernel.Interrupt() }, nil, 0, WaitCounts{}},
		"the context":       {func(_ *fake, cancel func()) { cancel() }, context.Canceled, 0, WaitCounts{}},
		"closed rings":      {func(r *fake, _ func()) { r.stream.halt.Store(true); r.kernel.Interrupt() }, os.ErrClosed, 0, WaitCounts{}},
		"closed rings, and the context before that": {func(r *fake, cancel func()) { r.stream.halt.Store(true); cancel() }, context.Canceled, 0, WaitCounts{}},
		"the longest time of it":                    {func(*fake, func()) {}, nil, time.Hour, WaitCounts{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFake(2, Options{Poll: time.Second, Enough: 64})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				done := inBackground(func() error { return r.waker.wait(ctx, r.parts, time.Hour) })
				require.Empty(t, done)
				c.end(r, cancel)
				require.Equal(t, c.err, <-done)
				require.Equal(t, c.after, time.Since(start))
				require.Equal(t, c.count, r.Waits())
				r.requireIdle(t)
			})
		})
	}
}

// A ring that holds enough ends the wait at once, which does not count as a look.
func TestWaitForEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(2, Options{Poll: time.Second, Enough: 64})
		r.hold(1, 64)
		require.NoError(t, r.waker.wait(t.Context(), r.parts, 0))
		require.Zero(t, r.Waits())
	})
}

// A wakeup ends only the single-ring waits it concerns. The rings are retained until the last
// waiter has gone.
func TestWaitForOneRingEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(2, Options{Enough: 64})
		closed := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		first := inBackground(func() error { return r.waker.waitRing(t.Context(), 0, closed) })
		second := inBackground(func() error { return r.waker.waitRing(ctx, 1, closed) })
		require.True(t, r.waker.each.serving)
		require.Equal(t, 2, r.waker.each.count)
		require.Equal(t, 2, r.Gate.Inside())

		r.hold(0, 8)
		r.kernel.Wake()
		require.NoError(t, <-first)
		synctest.Wait()
		require.Empty(t, second)
		cancel()
		require.Equal(t, context.Canceled, <-second)
		synctest.Wait()
		r.requireIdle(t)
		require.Equal(t, 1, r.Gate.Inside())

		var flushes stream.Flushes
		require.NoError(t, r.Rings.At(0).Claim(&flushes))
		flushes.Ask(1) // a pass has a call to answer: the wait ends at once
		require.NoError(t, r.waker.waitRing(t.Context(), 0, closed))
		first = inBackground(func() error { return r.waker.waitRing(t.Context(), 1, closed) })
		close(closed)
		require.Equal(t, os.ErrClosed, <-first)
		synctest.Wait()
		require.Equal(t, 1, r.Gate.Inside())
	})
}

// Once the wait for a ring has ended, however it did, another goroutine may wait for all rings: the
// serving goroutine does not get in the way.
func TestWaitAfterAWaitForARing(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, wait := range map[string]func(r *fake) error{
		"an event":    func(r *fake) error { r.hold(0, 64); return r.waker.waitRing(t.Context(), 0, nil) },
		"the context": func(r *fake) error { return r.waker.waitRing(ended, 0, nil) },
		"a flush": func(r *fake) error {
			done := make(chan error, 1)
			go func() { done <- r.waker.waitRing(t.Context(), 0, nil) }()
			for n := 0; n == 0 && len(done) == 0; n, _ = r.Waiters() {
				runtime.Gosched()
			}
			var flushes stream.Flushes
			if err := r.Rings.At(0).Claim(&flushes); err != nil {
				return err
			}
			defer r.Rings.At(0).Disclaim()
			flushes.Ask(1)
			r.waker.flush()
			return <-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFake(2, Options{Enough: 64})
			for range 5000 {
				r.hold(0, 0)
				if err := wait(r); err != context.Canceled {
					require.NoError(t, err)
				}
				r.hold(1, 64)
				require.NoError(t, r.waker.wait(t.Context(), r.parts, 0))
			}
			r.requireIdle(t)
		})
	}
}

// A sleep ignores rings. Its time, its context and a stir end it, also from before it began.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(1, Options{Enough: 8})
		r.hold(0, 64)
		for name, c := range map[string]struct {
			before, after bool
			context       bool
			lasts         time.Duration
		}{
			"time":             {lasts: time.Hour},
			"stirred":          {after: true, lasts: time.Minute},
			"stirred before":   {before: true},
			"cancelled":        {after: true, context: true, lasts: time.Minute},
			"cancelled before": {before: true, context: true},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var stirred atomic.Bool
			end := func() {
				if c.context {
					cancel(errTest)
				}
				stirred.Store(!c.context)
				r.kernel.Interrupt()
			}
			if c.before {
				end()
			}
			begin := time.Now()
			done := inBackground(func() error { return r.waker.sleep(Watched{ctx}, time.Hour, stirred.Load) })
			r.kernel.Wake()
			if c.after {
				time.Sleep(time.Minute)
				end()
			}
			err := <-done
			require.Equal(t, c.context, err == errTest, name)
			require.Equal(t, !c.context, err == nil, name)
			require.Equal(t, c.lasts, time.Since(begin), name)
			cancel(nil)
		}
	})
}
