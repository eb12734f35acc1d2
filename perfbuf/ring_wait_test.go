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
	n, ended := k.in.Waiters()
	require.Zero(t, n)
	require.Empty(t, ended)
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
			for i := range k.all() {
				ring := k.ring(i)
				var read atomic.Uint64
				wg.Go(func() {
					for next := uint64(0); next < events; {
						if err := ring.Wait(t.Context()); err != nil {
							t.Error(err)
							return
						}
						if err := ring.ForEach(func(ev Event) error {
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
		first, second := k.ring(0), k.ring(1)
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

		k.release()
		require.NoError(t, k.unordered().Wait(t.Context()), "nothing is left claimed")
		ids(t, k.unordered())
		done = waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
		requireHeld(t, k.all()[1])
		k.output(1, 4)
		k.poll.wake()
		require.NoError(t, <-done)
		k.release()
		require.NoError(t, k.ring(1).Wait(t.Context()))
		k.alone(t)
	})
}

func TestRingWaitContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{})
		over, cancel := context.WithCancelCause(t.Context())
		var all []<-chan error
		for i, ctx := range []context.Context{over, t.Context(), over} {
			all = append(all, waitInBackground(func() error { return k.ring(i).Wait(ctx) }))
		}
		cancel(errTest)
		require.Equal(t, errTest, <-all[0])
		require.Equal(t, errTest, <-all[2])
		require.Equal(t, errTest, k.ring(0).Wait(over))
		time.Sleep(time.Hour)
		blocked(t, all[1])
		again := waitInBackground(func() error { return k.ring(0).Wait(t.Context()) })
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
		for i := range k.all() {
			all = append(all, waitInBackground(func() error { return k.ring(i).Wait(context.Background()) }))
		}
		require.NoError(t, k.Close())
		for _, done := range all {
			require.Equal(t, os.ErrClosed, <-done)
		}
		synctest.Wait()
		require.Equal(t, int32(1), k.freed.Load(), "the last to leave frees, and nobody stays")
		require.Equal(t, os.ErrClosed, k.ring(0).Wait(context.Background()))
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
		runInBubble(t, name, func(t *testing.T) {
			k := c.make(t)
			k.fill(0, 1)
			k.poll.wake()
			done := waitInBackground(func() error { return k.ring(1).Wait(t.Context()) })
			time.Sleep(time.Hour)
			blocked(t, done)
			require.LessOrEqual(t, k.poll.waits.Load(), c.most)
			require.NoError(t, k.ring(0).Wait(t.Context()))
			blocked(t, done)
			k.output(1, 1)
			k.poll.wake()
			require.NoError(t, <-done)
			k.alone(t)
			k.Close()
		})
	}
}

// The poll interval holds for each waiter of one ring, however many others come and go.
func TestRingWaitPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{Wakeup: Wakeup{Bytes: 2 * recordSize, PollInterval: time.Minute}})
		start := time.Now()
		first := waitInBackground(func() error { return k.ring(0).Wait(t.Context()) })
		second := waitInBackground(func() error { return k.ring(1).Wait(t.Context()) })
		k.output(0, 1)
		for range 11 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			require.Equal(t, context.DeadlineExceeded, k.ring(2).Wait(ctx))
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
			return waitInBackground(func() error { return k.ring(i).Wait(t.Context()) })
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
			require.Equal(t, []uint64{uint64(round)}, ids(t, k.ring(i)))
			all[i] = wait(i)
			time.Sleep(bellPollInterval / 2)
			require.NoError(t, k.emit(i, uint64(round))) // rings no bell
			require.NoError(t, <-all[i])
			require.LessOrEqual(t, time.Since(at), 2*bellPollInterval)
			ids(t, k.ring(i))
			all[i] = wait(i)
		}
		k.Close()
		require.Equal(t, os.ErrClosed, <-all[0])
		require.Equal(t, os.ErrClosed, <-all[1])
		synctest.Wait()
		require.Equal(t, int32(1), k.freed.Load())
	})
}

// doneWhenAsked is a context that is done from when it is asked for Done, which it answers when
// before has returned.
type doneWhenAsked struct {
	context.Context
	before, cancel func()
}

func (c doneWhenAsked) Done() <-chan struct{} {
	c.before()
	c.cancel()
	return c.Context.Done()
}

// The ring is served just as the context is done. Whichever Wait goes by, the other is not left
// behind: the next Wait begins anew.
func TestRingWaitEndsAsItIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 2, Options{})
		ring := k.ring(0)
		serve := func() {
			k.output(0, 1)
			k.poll.wake()
			synctest.Wait()
			_, ended := k.in.Waiters()
			require.Equal(t, []int{0}, ended)
		}
		ways := map[error]int{}
		for range 64 { // a way by chance each: select chooses
			other, cancel := context.WithCancel(t.Context())
			stays := waitInBackground(func() error { return k.ring(1).Wait(other) })
			ctx, goAway := context.WithCancel(t.Context())
			ways[ring.Wait(doneWhenAsked{ctx, serve, goAway})]++
			n, ended := k.in.Waiters()
			require.Empty(t, ended)
			require.Equal(t, 1, n)
			require.Len(t, ids(t, ring), 1)
			blocked(t, stays)

			done := waitInBackground(func() error { return ring.Wait(t.Context()) })
			blocked(t, done)
			k.output(0, 2)
			k.poll.wake()
			require.NoError(t, <-done)
			require.Len(t, ids(t, ring), 1)
			cancel()
			require.Equal(t, context.Canceled, <-stays)
			k.alone(t)
		}
		require.Len(t, ways, 2, "served, or done: %v", ways)
	})
}

// A head that goes back or far ahead, as only damage makes it, is not believed. A waiter then goes
// on waiting, and reads on when the head is right again.
func TestWaitWithADamagedHead(t *testing.T) {
	for name, wakeup := range map[string]Wakeup{"each": {Events: 1}, "bytes": {Bytes: recordSize, PollInterval: 5 * time.Millisecond}} {
		for source, of := range map[string]func(k *fake) *Stream{
			"ring":      func(k *fake) *Stream { return sourceKinds["ring"](k) },
			"unordered": func(k *fake) *Stream { return k.unordered() },
			"ordered":   func(k *fake) *Stream { return k.stream() },
		} {
			for jump, believed := range map[uint64]bool{
				1 << 20: true, 1<<62 - 8 - recordSize: true, 1 << 62: source != "ordered", 1<<63 - 8 - recordSize: source != "ordered",
				1 << 63: false, ^uint64(7) - 2*recordSize: false, ^uint64(7) - 1<<20: false,
			} {
				runInBubble(t, name+", "+source, func(t *testing.T) {
					k := newFake(t, 1, Options{Wakeup: wakeup})
					w := of(k)
					k.output(0, 10)
					head := k.w[0].Head()
					k.w[0].SetHead(head + jump)
					k.w[0].Publish()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					n := 0
					require.ErrorIs(t, w.Run(ctx, func(ev Event) error { n++; return nil }), context.DeadlineExceeded)
					require.Equal(t, believed, n > 0, "%#x ahead", jump)
					if !believed {
						k.w[0].SetHead(head)
						k.w[0].Publish()
						k.output(0, 11)
						require.Equal(t, []uint64{10, 11}, ids(t, w))
					}
				})
			}
		}
	}
}
