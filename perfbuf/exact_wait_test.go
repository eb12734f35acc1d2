package perfbuf

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const period = 8 * time.Millisecond // a grace period

// exact is timed for a stream in exact mode, whose barriers take a grace period.
func exact(t *testing.T, rings int, opts Options, o StreamOptions) (*fake, *Stream, func() uint64) {
	k := newFake(t, rings, opts)
	start := time.Now()
	clock := func() uint64 { return uint64(time.Hour + time.Since(start)) }
	k.hooks.clock = clock
	k.programs = &fakePrograms{wait: func() error { time.Sleep(period); return nil }}
	s := k.open(o)
	return k, s, clock
}

// While nothing is held there are no barriers, however long; then one suffices for an event.
func TestExactWaitMakesBarriersForEventsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := exact(t, 2, Options{}, StreamOptions{})
		for range 3 {
			done := waitInBackground(func() error { return s.Wait(t.Context()) })
			k.poll.wake() // for nothing
			before := k.programs.waits.Load()
			time.Sleep(time.Hour)
			require.Equal(t, before, k.programs.waits.Load())
			at := clock()
			k.output(1, at)
			k.poll.wake()
			require.NoError(t, <-done)
			require.Equal(t, guard+2+uint64(period), clock()-at, "an event waits for the guard and a grace period")
			require.Equal(t, []uint64{at}, ids(t, s))
			require.Equal(t, before+1, k.programs.waits.Load())
		}
		require.Equal(t, period, k.Stats().Barrier.Last)
	})
}

// An old event needs not wait for the guard.
func TestExactWaitForAnOldEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := exact(t, 1, Options{}, StreamOptions{})
		at := clock()
		k.output(0, at-2*guard)
		require.NoError(t, s.Wait(t.Context()))
		require.Equal(t, uint64(period), clock()-at)
		require.NoError(t, s.Wait(t.Context()), "it is due")
		require.Equal(t, uint64(period), clock()-at)
		require.EqualValues(t, 1, k.programs.waits.Load())
	})
}

// Under a steady flow, barriers start an interval apart at least, and events wait for two at most.
func TestExactBarrierInterval(t *testing.T) {
	for interval, apart := range map[time.Duration]time.Duration{
		-1: period, 0: period, time.Second: time.Second, 20 * time.Millisecond: 20 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			k, s, clock := exact(t, 3, Options{}, StreamOptions{BarrierInterval: interval})
			var starts []time.Time
			k.programs.wait = func() error { starts = append(starts, time.Now()); time.Sleep(period); return nil }
			ctx, cancel := context.WithCancel(context.Background())
			last, n := uint64(0), 0
			done := waitInBackground(func() error {
				return s.Run(ctx, func(ev Event) error {
					require.GreaterOrEqual(t, ev.Time(), last)
					last = ev.Time()
					require.LessOrEqual(t, time.Duration(clock()-last), apart+period+2*guard)
					n++
					return nil
				})
			})
			for i := range 500 {
				time.Sleep(time.Duration(i%13) * time.Millisecond)
				k.output(i%3, clock())
				k.poll.wake()
			}
			time.Sleep(2 * time.Second)
			cancel()
			require.Equal(t, context.Canceled, <-done)
			synctest.Wait()
			require.Equal(t, 500, n)
			for i := range starts[1:] {
				require.GreaterOrEqual(t, starts[i+1].Sub(starts[i]), apart)
			}
			require.Zero(t, k.Stats().Late)
		})
	}
}

// A barrier that fails makes a Wait neither spin nor end; it goes on when the next one succeeds.
func TestExactWaitWhileBarriersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := exact(t, 1, Options{}, StreamOptions{BarrierInterval: -1})
		var fail atomic.Bool
		fail.Store(true)
		k.programs.wait = func() error {
			if fail.Load() {
				return errTest
			}
			return nil
		}
		at := clock()
		k.output(0, at)
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		for range 3 { // an error, after a while, that one may ignore
			err := <-done
			require.ErrorIs(t, err, ErrBarriers)
			require.ErrorIs(t, err, errTest)
			done = waitInBackground(func() error { return s.Wait(t.Context()) })
		}
		blocked(t, done)
		took := time.Duration(clock() - at)
		require.Greater(t, took, 3*time.Second)
		require.Less(t, took, 4*time.Second)
		n := k.programs.waits.Load()
		require.Positive(t, n)
		require.LessOrEqual(t, n, int32(took/(10*time.Millisecond))+1, "spins")
		st := k.Stats().Barrier
		require.ErrorIs(t, st.Err, errTest)
		require.EqualValues(t, n, st.Failed)
		require.Zero(t, st.Count)

		fail.Store(false)
		recovered := clock()
		require.NoError(t, <-done)
		require.Less(t, time.Duration(clock()-recovered), 50*time.Millisecond)
		require.Equal(t, []uint64{at}, ids(t, s))
		require.ErrorIs(t, k.Stats().Barrier.Err, errTest, "of the latest that failed")
	})
}

// A barrier that hangs stops delivery, and Stats shows it. Closing does not wait for it.
func TestExactWaitWhileABarrierHangs(t *testing.T) {
	for how, end := range map[string]func(k *fake, s *Stream, cancel func(error)) error{
		"context":      func(_ *fake, _ *Stream, cancel func(error)) error { cancel(errTest); return errTest },
		"Close":        func(_ *fake, s *Stream, _ func(error)) error { s.Close(); return os.ErrClosed },
		"Reader.Close": func(k *fake, _ *Stream, _ func(error)) error { k.Close(); return os.ErrClosed },
	} {
		runInBubble(t, how, func(t *testing.T) {
			k, s, clock := exact(t, 2, Options{}, StreamOptions{})
			hang := make(chan error)
			k.programs.wait = func() error { return <-hang }
			at := clock()
			k.output(1, at)
			ctx, cancel := context.WithCancelCause(context.Background())
			done := waitInBackground(func() error { return s.Wait(ctx) })
			time.Sleep(time.Second)
			require.Zero(t, k.Stats().Barrier.Stalled)
			time.Sleep(time.Minute)
			blocked(t, done)
			require.Equal(t, time.Minute, k.Stats().Barrier.Stalled.Truncate(time.Second))
			require.EqualValues(t, 1, k.programs.waits.Load())
			require.Zero(t, k.in.Barrier.Load().Watermark())

			start := clock()
			want := end(k, s, cancel)
			require.Equal(t, want, <-done)
			require.Equal(t, start, clock(), "at once")
			if how == "context" {
				require.Empty(t, ids(t, s), "it is not due")
				hang <- nil
				synctest.Wait()
				require.Equal(t, []uint64{at}, ids(t, s))
				require.Zero(t, k.Stats().Barrier.Stalled)
				require.NoError(t, s.Close())
			} else {
				hang <- nil
			}
			synctest.Wait()
			require.NoError(t, k.Close())
			require.Equal(t, k.programs.opens.Load(), k.programs.closes.Load())
			k.account(t, 1, 1)
		})
	}
}

// A caller that does not wait makes progress by calling ForEach again.
func TestExactForEachAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := exact(t, 2, Options{}, StreamOptions{})
		var got []uint64
		for i := range 100 {
			k.output(i%2, clock())
			time.Sleep(time.Millisecond)
			got = append(got, ids(t, s)...)
		}
		require.Greater(t, len(got), 70)
		for range 2 {
			time.Sleep(3 * period)
			got = append(got, ids(t, s)...)
		}
		require.Len(t, got, 100)
		require.IsIncreasing(t, got)
		n := k.programs.waits.Load()
		require.Less(t, n, int32(20))
		for range 100 {
			time.Sleep(time.Second)
			require.Empty(t, ids(t, s))
		}
		require.Equal(t, n, k.programs.waits.Load())
	})
}

// With a poll interval, barriers wait for it; a ring that fills up cuts it short.
func TestExactPolls(t *testing.T) {
	const interval = 100 * time.Millisecond
	for want, fills := range map[time.Duration]bool{
		interval + period:            false,
		10*time.Millisecond + period: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			k, s, clock := exact(t, 2, Options{Wakeup: Wakeup{Bytes: 4 * recordSize, PollInterval: interval}}, StreamOptions{})
			k.output(0, 1)
			require.NoError(t, s.Wait(t.Context()))
			require.Equal(t, []uint64{1}, ids(t, s))
			round := clock()
			k.output(1, round)
			done := waitInBackground(func() error { return s.Wait(t.Context()) })
			time.Sleep(10 * time.Millisecond)
			if fills {
				k.output(0, round+1, round+2, round+3, round+4)
				k.poll.wake()
			}
			require.NoError(t, <-done)
			require.Equal(t, want, time.Duration(clock()-round))
			require.EqualValues(t, 2, k.programs.waits.Load())
		})
	}
}

// All ways to read in exact mode give all events, in order.
func TestExactReading(t *testing.T) {
	for name, read := range map[string]func(s *Stream, f func(uint64) error) error{
		"Run": func(s *Stream, f func(uint64) error) error {
			return s.Run(context.Background(), func(ev Event) error { return f(ev.Time()) })
		},
		"Events": func(s *Stream, f func(uint64) error) error {
			for ev, err := range s.Events(context.Background()) {
				if err != nil {
					return err
				}
				if f(ev.Time()) != nil {
					break
				}
			}
			return nil
		},
		"Records": func(s *Stream, f func(uint64) error) error {
			for rec, err := range s.Records(context.Background()) {
				if err != nil {
					return err
				}
				if f(rec.Time) != nil {
					break
				}
			}
			return nil
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			k, s, clock := exact(t, 3, Options{}, StreamOptions{})
			var got []uint64
			done := waitInBackground(func() error {
				return read(s, func(time uint64) error {
					if got = append(got, time); len(got) == 300 {
						return ErrStop
					}
					return nil
				})
			})
			for i := range 300 {
				time.Sleep(time.Duration(i*i%1500) * time.Microsecond)
				// Older than the one before, on another CPU
				k.output(i%3, clock()-uint64(i%2)*5000)
				k.poll.wake()
			}
			require.NoError(t, <-done)
			require.IsNonDecreasing(t, got)
			require.Len(t, got, 300)
			require.Zero(t, k.Stats().Late)
			require.NoError(t, s.Close())
		})
	}
}
