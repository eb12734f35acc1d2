//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// inWait starts a Wait and returns when it is parked in the runtime's poller. A late wakeup, for
// events already read, ends the Wait of an unordered stream: then it waits again.
func inWait(t *testing.T, r *perfbuf.Reader, w *perfbuf.Stream, ctx context.Context) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	background(t, func() {
		err := w.Wait(ctx)
		for err == nil && w.Options().Order == perfbuf.Unordered() && !slices.ContainsFunc(r.Rings(), func(r *perfbuf.Ring) bool { return r.Used() > 0 }) {
			err = w.Wait(ctx)
		}
		result <- err
	})
	parked("IO wait", "wake.(*Waker).Wait")
	return result
}

func TestKernelWaitForData(t *testing.T) {
	eachSource(t, perfbuf.Options{Wakeup: perfbuf.Wakeup{Events: 1}}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		for range 20 {
			for _, ring := range r.Rings() {
				done := inWait(t, r, w, t.Context())
				e.Emit(ring.CPU(), 1, 24)
				require.NoError(t, <-done)
				require.NoError(t, w.Wait(t.Context()), "there is data: no need to wait")
				require.Len(t, collect(t, w), 1)
			}
		}
		stats := r.Stats()
		require.GreaterOrEqual(t, stats.Wakes, uint64(20*len(r.Rings())))
		require.Zero(t, stats.TimerWakes)
	})
}

func TestKernelWaitContext(t *testing.T) {
	cause := errors.New("enough")
	eachSource(t, perfbuf.Options{}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, w.Wait(ctx))

		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
		defer cancel()
		require.Equal(t, cause, w.Wait(ctx))

		ctx, cancelCause := context.WithCancelCause(t.Context())
		done := inWait(t, r, w, ctx)
		cancelCause(cause)
		require.Equal(t, cause, <-done)
		require.Equal(t, cause, w.Wait(ctx), "cancelled before")

		e.Emit(r.Rings()[0].CPU(), 1, 24)
		require.Equal(t, cause, w.Wait(ctx), "goes before data")
		require.NoError(t, w.Wait(t.Context()), "a cancelled wait leaves nothing behind")
		require.Len(t, collect(t, w), 1)
	})
}

// The end of a Wait's context, at any moment, ends that Wait and does not disturb the next.
func TestKernelWaitCancelRace(t *testing.T) {
	eachSource(t, perfbuf.Options{}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		cpu := r.Rings()[0].CPU()
		cancels := make(chan context.CancelFunc)
		background(t, func() {
			rnd := rand.New(rand.NewPCG(10, 11))
			for cancel := range cancels {
				// Some while, up to a few microseconds
				for sum := 0; sum < rnd.IntN(1<<20); sum += 1 << 10 {
				}
				cancel()
			}
		})
		defer close(cancels)
		for i := range 2000 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels <- cancel
			if err := w.Wait(ctx); err != context.Canceled { // a plain comparison: there are many
				require.Equal(t, context.Canceled, err)
			}
			if i%20 == 0 {
				emitted := background(t, func() { e.Emit(cpu, 1, 24) })
				require.NoError(t, w.Wait(t.Context()))
				<-emitted
				require.Len(t, collect(t, w), 1)
			}
		}
	})
}

func TestKernelWaitClose(t *testing.T) {
	eachSource(t, perfbuf.Options{}, func(t *testing.T, _ *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		done := inWait(t, r, w, t.Context())
		require.NoError(t, r.Close())
		require.Equal(t, os.ErrClosed, <-done)
		require.Equal(t, os.ErrClosed, w.Wait(t.Context()))
	})
}

// Closing a stream ends its Wait, but the reader goes on.
func TestKernelWaitOrderedClose(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	s := ordered(t, r)
	done := inWait(t, r, s, t.Context())
	require.NoError(t, s.Close())
	require.Equal(t, os.ErrClosed, <-done)

	e.Emit(r.Rings()[0].CPU(), 1, 24)
	require.NoError(t, perfbuf.StreamOf(t, r).Wait(t.Context()))
	require.Len(t, collect(t, perfbuf.StreamOf(t, r)), 1)
	done = inWait(t, r, perfbuf.StreamOf(t, r), t.Context())
	e.Emit(r.Rings()[0].CPU(), 1, 24)
	require.NoError(t, <-done)
}

// A stream also waits for events to come of age, and that ends as well.
func TestKernelWaitSlack(t *testing.T) {
	for name, end := range map[string]func(*perfbuf.Reader, *perfbuf.Stream, func()) error{
		"stream": func(_ *perfbuf.Reader, s *perfbuf.Stream, _ func()) error { s.Close(); return os.ErrClosed },
		"reader": func(r *perfbuf.Reader, _ *perfbuf.Stream, _ func()) error { r.Close(); return os.ErrClosed },
		"cancel": func(_ *perfbuf.Reader, _ *perfbuf.Stream, cancel func()) error { cancel(); return context.Canceled },
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{})
			s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Hour)})
			require.NoError(t, err)
			e.Emit(r.Rings()[0].CPU(), 1, 24)
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			background(t, func() { result <- s.Wait(ctx) })
			parked("select", "order.(*Stream).Sleep")
			require.Equal(t, end(r, s, cancel), <-result)
		})
	}
}

func TestKernelWaitBusy(t *testing.T) {
	eachSource(t, perfbuf.Options{}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		done := inWait(t, r, w, t.Context())
		require.ErrorIs(t, w.Wait(t.Context()), perfbuf.ErrBusy)
		require.ErrorIs(t, w.ForEach(nothing), perfbuf.ErrBusy)
		e.Emit(r.Rings()[0].CPU(), 1, 24)
		require.NoError(t, <-done)
	})
}

// The kernel's own wakeups, with nobody looking before an hour has passed.
func TestKernelWakeup(t *testing.T) {
	for name, c := range map[string]struct {
		wakeup perfbuf.Wakeup
		events int // how many it takes
	}{
		"events": {perfbuf.Wakeup{Events: 5, PollInterval: time.Hour}, 5},
		"bytes":  {perfbuf.Wakeup{Bytes: 5 * 48, PollInterval: time.Hour}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{Wakeup: c.wakeup})
			cpu := r.Rings()[0].CPU()
			done := inWait(t, r, perfbuf.StreamOf(t, r), t.Context())
			for range c.events - 1 {
				e.Emit(cpu, 1, 24)
			}
			require.Empty(t, done, "woken too early")
			e.Emit(cpu, 1, 24)
			require.NoError(t, <-done)
			require.Len(t, collect(t, perfbuf.StreamOf(t, r)), c.events)
			stats := r.Stats()
			require.EqualValues(t, 1, stats.Wakes)
			require.Zero(t, stats.SpuriousWakes)
			require.Zero(t, stats.TimerWakes)
		})
	}
}

// One event is seen even where the kernel would only wake for many.
func TestKernelTrickle(t *testing.T) {
	for name, wakeup := range map[string]perfbuf.Wakeup{
		"each":          {},
		"events":        {Events: 1000},
		"bytes":         {Bytes: 64 << 10},
		"events, short": {Events: 1000, PollInterval: 100 * time.Microsecond},
		"bytes, short":  {Bytes: 64 << 10, PollInterval: 100 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			eachSource(t, perfbuf.Options{Wakeup: wakeup}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
				for i := range 6 {
					ring := r.Rings()[i%len(r.Rings())]
					// Before the wait, and in the middle of it.
					if i%2 == 0 {
						e.Emit(ring.CPU(), 1, 24)
						require.NoError(t, w.Wait(t.Context()))
					} else {
						done := make(chan error, 1)
						background(t, func() { done <- w.Wait(t.Context()) })
						parked("", "wake.(*Waker).Wait")
						e.Emit(ring.CPU(), 1, 24)
						require.NoError(t, <-done)
					}
					require.Len(t, collect(t, w), 1)
				}
				if name != "each" {
					require.NotZero(t, r.Stats().TimerWakes)
				}
			})
		})
	}
}

// A wakeup that came while nobody waited is not lost: enough is there, and the next Wait sees that.
func TestKernelWakeupBeforeWait(t *testing.T) {
	for name, opts := range map[string]perfbuf.Options{
		"each":            {},
		"events":          {Wakeup: perfbuf.Wakeup{Events: 5, PollInterval: time.Hour}},
		"events, no time": {Wakeup: perfbuf.Wakeup{Events: 5, PollInterval: time.Hour}, NoTime: true},
		"bytes":           {Wakeup: perfbuf.Wakeup{Bytes: 4 * 40, PollInterval: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, opts)
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), 5, 24)
				// The runtime's poller hears of it and, as nobody waits, forgets it
				time.Sleep(20 * time.Millisecond)
				require.NoError(t, perfbuf.StreamOf(t, r).Wait(t.Context()))
				require.Len(t, collect(t, perfbuf.StreamOf(t, r)), 5)
			}
		})
	}
}
