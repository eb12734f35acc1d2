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

		k.release()
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

// timed makes a fake whose clock is that of the bubble, and a stream of it.
// Stream.Wait sleeps by the one and reckons by the other.
func timed(t *testing.T, rings int, opts Options, slack time.Duration) (*fake, *Stream, func() uint64) {
	k := newFake(t, rings, opts)
	start := time.Now()
	clock := func() uint64 { return uint64(time.Hour + time.Since(start)) }
	k.hooks.clock = clock
	s := k.open(StreamOptions{Order: Slack(slack)})
	return k, s, clock
}

func TestStreamWaitsUntilAnEventsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := timed(t, 2, Options{}, time.Second)
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		time.Sleep(time.Minute)
		blocked(t, done)
		at := clock()
		k.output(1, at)
		k.poll.wake()
		blocked(t, done)
		require.NoError(t, <-done)
		require.Equal(t, at+uint64(time.Second), clock())
		require.Equal(t, []uint64{at}, ids(t, s))
	})
}

func TestStreamDoesNotWaitForWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := timed(t, 1, Options{}, time.Second)
		at := clock()
		k.output(0, at-uint64(time.Second))
		require.NoError(t, s.Wait(t.Context()))
		require.Equal(t, at, clock())
	})
}

// A steady flow is read in batches: half the slack apart, 5 ms at most.
func TestStreamPacesItsPasses(t *testing.T) {
	for slack, pause := range map[time.Duration]time.Duration{2 * time.Millisecond: time.Millisecond, time.Second: 5 * time.Millisecond, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			k, s, clock := timed(t, 1, Options{}, slack)
			k.output(0, 1, 2, 3) // long due
			for range 3 {
				before := clock()
				require.NoError(t, s.Wait(t.Context()))
				if k.Stats().Passes > 0 {
					require.Equal(t, uint64(pause), clock()-before)
				}
				require.NoError(t, s.ForEach(func(Event) error { return ErrStop }))
			}
		})
	}
}

// Run delivers all events of all rings, in order, each as soon as its slack has passed or a pause
// after that.
func TestRunOfAStreamKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := timed(t, 3, Options{}, 10*time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		var times []uint64
		done := waitInBackground(func() error {
			return s.Run(ctx, func(ev Event) error {
				lag := time.Duration(clock() - ev.Time())
				require.GreaterOrEqual(t, lag, 10*time.Millisecond)
				require.LessOrEqual(t, lag, 15*time.Millisecond)
				require.False(t, ev.Late())
				times = append(times, id(t, ev))
				return nil
			})
		})
		for i := range 200 {
			time.Sleep(time.Duration(i%7) * time.Millisecond)
			k.output(i%3, clock())
			k.poll.wake()
		}
		time.Sleep(time.Second)
		cancel()
		require.Equal(t, context.Canceled, <-done)
		require.Len(t, times, 200)
		require.IsNonDecreasing(t, times)
	})
}

// With a wakeup threshold, events seen and held do not count as unread, and fewer bytes wait for
// the poll interval.
func TestStreamPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := timed(t, 1, Options{Wakeup: Wakeup{Bytes: 2 * recordSize, PollInterval: time.Minute}}, time.Millisecond)
		start := clock()
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		k.output(0, start)
		blocked(t, done)
		require.NoError(t, <-done)
		require.Equal(t, uint64(time.Minute), clock()-start)
		require.Equal(t, uint64(1), k.Stats().TimerWakes)
	})
}

func TestWaitOfAStreamEnds(t *testing.T) {
	polling := Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: time.Minute}}
	for name, c := range map[string]struct {
		held int
		opts Options
	}{
		"nothing is held": {0, Options{}}, "two events are held": {2, Options{}},
		"nothing is held, polling": {0, polling}, "two events are held, polling": {2, polling},
	} {
		for how, end := range map[string]func(k *fake, s *Stream, cancel func(error)) error{
			"context":      func(_ *fake, _ *Stream, cancel func(error)) error { cancel(errTest); return errTest },
			"Close":        func(_ *fake, s *Stream, _ func(error)) error { s.Close(); return os.ErrClosed },
			"Reader.Close": func(k *fake, _ *Stream, _ func(error)) error { k.Close(); return os.ErrClosed },
		} {
			runInBubble(t, how+", "+name, func(t *testing.T) {
				k, s, clock := timed(t, 2, c.opts, time.Hour)
				for range c.held {
					k.output(1, clock())
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				done := waitInBackground(func() error { return s.Wait(ctx) })
				blocked(t, done)
				start := clock()
				want := end(k, s, cancel)
				require.Equal(t, want, <-done)
				require.Equal(t, start, clock(), "at once")
				if how == "Close" {
					require.Empty(t, ids(t, k.unordered()), "the rings are free")
					require.EqualValues(t, c.held, k.Stats().Total().Dropped)
				}
			})
		}
	}
}

// One goroutine waits, another must not read.
func TestStreamIsForOneGoroutineAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := timed(t, 1, Options{}, 0)
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		require.ErrorIs(t, s.ForEach(never), ErrBusy)
		require.ErrorIs(t, s.Wait(t.Context()), ErrBusy)
		require.NoError(t, s.Close())
		require.Equal(t, os.ErrClosed, <-done)
	})
}

// With a poll interval, rounds come that far apart, or as soon as a ring holds
// as much as wakes the reader.
func TestPollIntervalPacesTheRoundsOfAStream(t *testing.T) {
	const interval, slack = 100 * time.Millisecond, time.Millisecond
	bytes, events := Wakeup{Bytes: 4 * recordSize, PollInterval: interval}, Wakeup{Events: 4, PollInterval: interval}
	for name, c := range map[string]struct {
		wakeup    Wakeup
		meanwhile func(k *fake, at uint64) // while the last round's events are worked on
		later     func(k *fake, at uint64) // 10 ms into the wait
		want      time.Duration            // from the last round to the next
	}{
		"a trickle": {
			wakeup:    bytes,
			meanwhile: func(k *fake, at uint64) { k.output(1, at) },
			later:     func(k *fake, at uint64) { k.output(0, at) },
			want:      interval,
		},
		"a ring fills up during the wait": {
			wakeup:    bytes,
			meanwhile: func(k *fake, at uint64) { k.output(1, at) },
			later:     func(k *fake, at uint64) { k.output(0, at, at, at, at); k.poll.wake() },
			want:      10 * time.Millisecond,
		},
		"as many events as wake": {
			wakeup:    events,
			meanwhile: func(k *fake, at uint64) { k.output(1, at) },
			later:     func(k *fake, at uint64) { k.output(0, at, at, at, at); k.poll.wake() },
			want:      10 * time.Millisecond,
		},
		"a ring filled up before the wait": {
			wakeup:    bytes,
			meanwhile: func(k *fake, at uint64) { k.output(0, at, at, at, at); k.poll.wake() },
			later:     func(*fake, uint64) {},
			want:      slack,
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			k, s, clock := timed(t, 2, Options{Wakeup: c.wakeup}, slack)
			k.output(0, 1) // long due
			require.NoError(t, s.Wait(t.Context()))
			round := clock()
			require.NoError(t, s.ForEach(func(Event) error { c.meanwhile(k, clock()); return nil }))
			go func() {
				time.Sleep(10 * time.Millisecond)
				c.later(k, clock())
			}()
			require.NoError(t, s.Wait(t.Context()))
			require.Equal(t, c.want, time.Duration(clock()-round))
			time.Sleep(time.Second) // past the other goroutine
		})
	}
}
