package perfbuf

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// alone makes sure that nobody waits, for one ring or for all.
func (k *fake) alone(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Zero(t, k.in.Waker.State())
	require.Equal(t, 1, k.in.Gate.Inside())
}

// Each ring is read by a goroutine of its own, and each event wakes one of them.
func TestRingWait(t *testing.T) {
	for name, make := range map[string]func() (k *fake, emit func(ring int, time uint64) error){
		"each event wakes": func() (*fake, func(int, uint64) error) {
			k := newFake(t, 8, Options{})
			return k, func(ring int, time uint64) error { k.output(ring, time); k.poll.wake(); return nil }
		},
		"doorbell": func() (*fake, func(int, uint64) error) {
			k := newBelled(t, 8)
			return k.fake, k.emit
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, emit := make()
			const events = 300
			var wg sync.WaitGroup
			for i, ring := range k.all() {
				var read atomic.Uint64
				wg.Go(func() {
					for next := uint64(0); next < events; {
						if err := StreamOf(t, ring).Wait(t.Context()); err != nil {
							t.Error(err)
							return
						}
						if err := StreamOf(t, ring).ForEach(func(ev Event) error {
							if got := id(t, ev); got != next {
								t.Errorf("ring %d: event %d instead of %d", i, got, next)
							}
							next++
							return nil
						}); err != nil {
							t.Error(err)
							return
						}
						read.Store(next) // the pass has moved the tail
					}
				})
				wg.Go(func() {
					for n := range uint64(events) {
						for n > read.Load()+64 { // the ring must not overflow
							time.Sleep(10 * time.Microsecond)
						}
						if n%50 == 0 {
							time.Sleep(time.Millisecond)
						}
						if err := emit(i, n); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, k.Close())
			require.Equal(t, uint64(8*events), k.Stats().Total().Samples)
		})
	}
}

func TestRingWaitBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{})
		k.output(2, 1) // of no concern to the others
		first, second := StreamOf(t, k.all()[0]), StreamOf(t, k.all()[1])
		done := waitInBackground(func() error { return first.Wait(t.Context()) })
		require.ErrorIs(t, first.Wait(t.Context()), ErrBusy)
		other := waitInBackground(func() error { return second.Wait(t.Context()) })
		blocked(t, done)
		blocked(t, other)
		requireHeld(t, k.Reader)
		k.output(0, 2)
		k.poll.wake()
		require.NoError(t, <-done)
		blocked(t, other)
		k.output(1, 3)
		k.poll.wake()
		require.NoError(t, <-other)
		k.alone(t)

		require.NoError(t, k.unordered().Wait(t.Context()), "nothing is left claimed")
		ids(t, k.unordered())
		done = waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		requireHeld(t, k.all()[1])
		k.output(1, 4)
		k.poll.wake()
		require.NoError(t, <-done)
		require.NoError(t, StreamOf(t, k.all()[1]).Wait(t.Context()))
		k.alone(t)
	})
}

func TestRingWaitContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{})
		over, cancel := context.WithCancelCause(t.Context())
		var all []<-chan error
		for i, ctx := range []context.Context{over, t.Context(), over} {
			all = append(all, waitInBackground(func() error { return StreamOf(t, k.all()[i]).Wait(ctx) }))
		}
		cancel(errTest)
		require.Equal(t, errTest, <-all[0])
		require.Equal(t, errTest, <-all[2])
		require.Equal(t, errTest, StreamOf(t, k.all()[0]).Wait(over))
		time.Sleep(time.Hour)
		blocked(t, all[1])
		again := waitInBackground(func() error { return StreamOf(t, k.all()[0]).Wait(t.Context()) })
		k.output(0, 1)
		k.output(1, 2)
		k.output(2, 3)
		k.poll.wake()
		require.NoError(t, <-all[1])
		require.NoError(t, <-again)
		k.alone(t)
	})
}

func TestRingWaitCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{Wakeup: Wakeup{Bytes: fakeRingSize / 2, PollInterval: time.Second}})
		var all []<-chan error
		for _, ring := range k.all() {
			all = append(all, waitInBackground(func() error { return StreamOf(t, ring).Wait(context.Background()) }))
		}
		require.NoError(t, k.Close())
		for _, done := range all {
			require.Equal(t, os.ErrClosed, <-done)
		}
		synctest.Wait()
		require.Equal(t, int32(1), k.freed.Load(), "the last to leave frees, and nobody stays")
		require.Equal(t, os.ErrClosed, StreamOf(t, k.all()[0]).Wait(context.Background()))
		require.Equal(t, int32(1), k.freed.Load())
	})
}

// A ring with data and no waiter does not keep waiters of other rings busy.
func TestRingWaitDoesNotSpin(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T) *fake
		most int32 // waits in an hour
	}{
		"each event wakes": {func(t *testing.T) *fake { return newFake(t, 2, Options{}) }, 3},
		"bytes": {func(t *testing.T) *fake {
			return newFake(t, 2, Options{Wakeup: Wakeup{Bytes: recordSize, PollInterval: time.Minute}})
		}, 64},
		"doorbell": {func(t *testing.T) *fake { return newBelled(t, 2).fake }, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := c.make(t)
				k.fill(0, 1)
				k.poll.wake()
				done := waitInBackground(func() error { return StreamOf(t, k.all()[1]).Wait(t.Context()) })
				time.Sleep(time.Hour)
				blocked(t, done)
				require.LessOrEqual(t, k.poll.waits.Load(), c.most)
				require.NoError(t, StreamOf(t, k.all()[0]).Wait(t.Context()))
				blocked(t, done)
				k.output(1, 1)
				k.poll.wake()
				require.NoError(t, <-done)
				k.alone(t)
				k.Close()
			})
		})
	}
}

// The poll interval holds for each waiter of one ring, however many others come and go.
func TestRingWaitPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{Wakeup: Wakeup{Bytes: 2 * recordSize, PollInterval: time.Minute}})
		start := time.Now()
		first := waitInBackground(func() error { return StreamOf(t, k.all()[0]).Wait(t.Context()) })
		second := waitInBackground(func() error { return StreamOf(t, k.all()[1]).Wait(t.Context()) })
		k.output(0, 1)
		for range 11 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			require.Equal(t, context.DeadlineExceeded, StreamOf(t, k.all()[2]).Wait(ctx))
			cancel()
		}
		require.Equal(t, 55*time.Second, time.Since(start))
		blocked(t, first)
		require.NoError(t, <-first)
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, uint64(1), k.Stats().TimerWakes)
		blocked(t, second)

		time.Sleep(10 * time.Second)
		k.output(1, 2, 3)
		k.poll.wake()
		require.NoError(t, <-second)
		require.Equal(t, 70*time.Second, time.Since(start), "enough to wake")
		require.Equal(t, uint64(1), k.Stats().TimerWakes)
		k.alone(t)
	})
}

// A waiter for one ring has the doorbell too: asleep when nothing comes, woken by the first event.
func TestRingWaitDoorbell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		wait := func(i int) <-chan error {
			return waitInBackground(func() error { return StreamOf(t, k.all()[i]).Wait(t.Context()) })
		}
		all := []<-chan error{wait(0), wait(1)}
		for round := range 6 {
			i := round % 2
			time.Sleep(time.Hour)
			k.requireEntries(bellEntry, bellEntry)
			waits := k.poll.waits.Load()
			time.Sleep(time.Hour)
			require.Equal(t, waits, k.poll.waits.Load())
			at := time.Now()
			require.NoError(t, k.emit(i, uint64(round)))
			require.NoError(t, <-all[i])
			require.Equal(t, at, time.Now())
			blocked(t, all[1-i])
			require.Equal(t, []uint64{uint64(round)}, ids(t, StreamOf(t, k.all()[i])))
			all[i] = wait(i)
			time.Sleep(bellPollInterval / 2)
			require.NoError(t, k.emit(i, uint64(round))) // rings no bell
			require.NoError(t, <-all[i])
			require.LessOrEqual(t, time.Since(at), 2*bellPollInterval)
			ids(t, StreamOf(t, k.all()[i]))
			all[i] = wait(i)
		}
		k.Close()
		require.Equal(t, os.ErrClosed, <-all[0])
		require.Equal(t, os.ErrClosed, <-all[1])
		synctest.Wait()
		require.Equal(t, int32(1), k.freed.Load())
	})
}
