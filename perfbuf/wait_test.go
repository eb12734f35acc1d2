package perfbuf

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// waitInBackground starts a call and lets it come to rest. The result is in the channel when it
// ends.
func waitInBackground(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	synctest.Wait()
	return done
}

// blocked makes sure that a call is still waiting.
func blocked(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		require.FailNow(t, "returned", "%v", err)
	default:
	}
}

func TestWaitReturnsAtOnceIfThereIsSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 2, Options{})
		k.output(1, 1)
		require.NoError(t, k.unordered().Wait(t.Context()))
		require.Zero(t, k.Stats().Wakes)
	})
}

func TestWaitIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 2, Options{})
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		k.output(1, 1)
		blocked(t, done) // it does not poll
		k.poll.wake()
		require.NoError(t, <-done)
		require.Equal(t, uint64(1), k.Stats().Wakes)
		require.Zero(t, k.Stats().SpuriousWakes)
		require.Equal(t, []uint64{1}, ids(t, k.unordered()))
	})
}

func TestSpuriousWakesAreCountedAndWaitedThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{})
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		for range 3 {
			k.poll.wake()
			blocked(t, done)
		}
		k.output(0, 1)
		k.poll.wake()
		require.NoError(t, <-done)
		require.Equal(t, []uint64{4, 3}, []uint64{k.Stats().Wakes, k.Stats().SpuriousWakes})
	})
}

func TestSecondWaitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{})
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		require.ErrorIs(t, k.unordered().Wait(t.Context()), ErrBusy)
		require.ErrorIs(t, k.unordered().Run(t.Context(), never), ErrBusy)
		require.ErrorIs(t, k.unordered().ForEach(never), ErrBusy)
		blocked(t, done)
		k.output(0, 1)
		k.poll.wake()
		require.NoError(t, <-done)
		require.NoError(t, k.unordered().Wait(t.Context()), "nothing is left claimed")
	})
}

// A context that is done already goes before events, before a second Wait and before closing.
func TestWaitWithAContextThatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{})
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errTest)
		k.output(0, 1)
		require.Equal(t, errTest, k.unordered().Wait(ctx))
		require.Equal(t, errTest, k.unordered().Run(ctx, never))
		require.Equal(t, errTest, only(t, k.unordered().Events(ctx)))
		require.Equal(t, errTest, only(t, k.unordered().Records(ctx)))
		require.Equal(t, []uint64{1}, ids(t, k.unordered()))
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		require.Equal(t, errTest, k.unordered().Wait(ctx))
		k.Close()
		require.Equal(t, errTest, k.unordered().Wait(ctx))
		require.Equal(t, os.ErrClosed, <-done)
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{})
		ctx, cancel := context.WithCancelCause(context.Background())
		done := waitInBackground(func() error { return k.unordered().Wait(ctx) })
		cancel(errTest)
		require.Equal(t, errTest, <-done)

		ctx, stop := context.WithTimeout(context.Background(), time.Hour)
		defer stop()
		start := time.Now()
		require.Equal(t, context.DeadlineExceeded, k.unordered().Wait(ctx))
		require.Equal(t, time.Hour, time.Since(start))

		k.output(0, 1)
		require.NoError(t, k.unordered().Wait(t.Context()), "an interrupt of before does not count")
	})
}

func TestWaitEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{})
		done := waitInBackground(func() error { return k.unordered().Wait(context.Background()) })
		require.NoError(t, k.Close())
		require.Equal(t, os.ErrClosed, <-done)
		require.Equal(t, int32(1), k.freed.Load())
	})
}

// Events below the wakeup threshold wake nobody, and are seen when they have waited for the poll
// interval at most.
func TestPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{Wakeup: Wakeup{Bytes: 2 * recordSize, PollInterval: time.Minute}})
		start := time.Now()
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		time.Sleep(90 * time.Second) // an empty minute passes, and half of another
		blocked(t, done)
		k.output(0, 1)
		require.NoError(t, <-done)
		require.Equal(t, 2*time.Minute, time.Since(start))
		require.Equal(t, uint64(1), k.Stats().TimerWakes)
		require.Zero(t, k.Stats().Wakes)
		require.Equal(t, int32(2), k.poll.waits.Load())
	})
}

func TestWaitThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 2, Options{Wakeup: Wakeup{Bytes: 2 * recordSize, PollInterval: time.Minute}})
		k.output(0, 1)
		k.output(1, 2)
		start := time.Now()
		require.NoError(t, k.unordered().Wait(t.Context()))
		require.Equal(t, time.Minute, time.Since(start), "neither ring holds enough")
		k.output(1, 3)
		require.NoError(t, k.unordered().Wait(t.Context()))
		require.Equal(t, time.Minute, time.Since(start), "one does")

		ids(t, k.unordered())
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		k.output(0, 4)
		k.poll.wake()
		require.NoError(t, <-done)
		require.Equal(t, time.Minute, time.Since(start), "the kernel's wakeup counts whatever the threshold")
		require.Equal(t, uint64(1), k.Stats().Wakes)
	})
}

// Without a poll interval, no timer runs.
func TestEachEventWakesWithoutPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{Wakeup: Wakeup{Events: 1}})
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		time.Sleep(1000 * time.Hour)
		blocked(t, done)
		require.Equal(t, int32(1), k.poll.waits.Load())
		k.Close()
		require.Equal(t, os.ErrClosed, <-done)
	})
}

// hookedPoller does something just before each wait.
type hookedPoller struct {
	fakePolling
	before func()
}

func (p *hookedPoller) Wait(until time.Time, ready func(woken bool) bool) error {
	p.before()
	return p.fakePolling.Wait(until, ready)
}

// The context is done, or the stream closed, after Wait has looked and before the poller has its
// deadline, which replaces the one that was to interrupt it.
func TestInterruptJustBeforeTheDeadlineIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		k.hooks.poll = &hookedPoller{k.poll, func() { cancel(errTest); synctest.Wait() }}
		require.Equal(t, errTest, k.unordered().Wait(ctx))

		s := k.stream()
		k.hooks.poll = &hookedPoller{k.poll, func() { s.Close() }}
		require.ErrorIs(t, s.Wait(t.Context()), os.ErrClosed)
	})
}

// A wakeup that nobody waited for is gone. What it stood for is enough not to wait.
func TestWakeupAfterEventsThatNobodyWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{Wakeup: Wakeup{Events: 3, PollInterval: time.Hour}})
		k.output(0, 1, 2)
		done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		blocked(t, done)
		k.output(0, 3)
		k.poll.wake()
		require.NoError(t, <-done)
		begin := time.Now()
		require.NoError(t, k.unordered().Wait(t.Context()))
		require.Equal(t, begin, time.Now())
	})
}
