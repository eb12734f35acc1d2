package engine

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// After a pause a wakeup ends the wait at once. While all rings stay armed, nothing looks at them.
func TestWaitAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBelled()
		r.kernel.dozes = true
		wait := func() <-chan error {
			return inBackground(func() error { return r.waker.wait(t.Context(), r.parts, 0) })
		}
		done := wait()
		time.Sleep(time.Hour)
		looks := r.Waits().Polls
		for n := range uint64(3) {
			time.Sleep(time.Hour)
			require.Equal(t, looks, r.Waits().Polls, "it looks")
			r.kernel.Wake() // with nothing to read: only a pass finds that out
			require.NoError(t, <-done)
			require.Equal(t, WaitCounts{Wakes: n + 1, Polls: looks}, r.Waits())
			require.True(t, r.waker.roused)
			done = wait()
			time.Sleep(untilDrowsy - time.Nanosecond)
			synctest.Wait()
			require.EqualValues(t, n+1, r.kernel.dozed.Load(), "others may wait for the thread")
		}

		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 4, r.kernel.dozed.Load())
		r.Entries.Disarm(0)
		r.disarmed()
		time.Sleep(time.Second - time.Nanosecond)
		require.Equal(t, looks, r.Waits().Polls)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, looks+1, r.Waits().Polls, "it looks at the disarmed ring")
		r.hold(0, 64)
		require.NoError(t, <-done)

		r.waker.roused = true // as a doze has left it
		require.NoError(t, r.waker.wait(t.Context(), r.parts, 0))
		require.False(t, r.waker.roused, "this one has not dozed")
	})
}

// A wait that may not doze, as enough others do, waits on without trying it again.
func TestWaitWithoutADoze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBelled()
		done := inBackground(func() error { return r.waker.wait(t.Context(), r.parts, 0) })
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, r.kernel.dozed.Load())
		r.hold(0, 64)
		r.kernel.Wake()
		require.NoError(t, <-done)
		require.False(t, r.waker.roused)
		require.EqualValues(t, 1, r.Waits().Wakes)
	})
}

// After a pause, too, a wakeup by a ring without a waiter ends no other ring's wait, and does not
// restart the looks.
func TestWaitRingAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBelled()
		r.kernel.dozes = true
		done := inBackground(func() error { return r.waker.waitRing(t.Context(), 0, nil) })
		time.Sleep(time.Hour)
		looks := r.Waits().Polls
		r.hold(1, 8)
		r.kernel.Wake()
		time.Sleep(time.Hour)
		require.Empty(t, done)
		require.Equal(t, looks, r.Waits().Polls)
		r.hold(0, 8)
		r.kernel.Wake()
		require.NoError(t, <-done)
	})
}

// A wakeup for several readers counts once: for the reader whose event ends the wait, or else for
// the first with anything to read. The same holds after a pause.
func TestWakesOfSeveral(t *testing.T) {
	for name, c := range map[string]struct {
		unread [2]uint64 // of the readers
		wakes  [2]uint64
	}{
		"of the first":  {[2]uint64{8, 0}, [2]uint64{1, 0}},
		"of the second": {[2]uint64{0, 8}, [2]uint64{0, 1}},
		"of both":       {[2]uint64{8, 8}, [2]uint64{1, 0}},
		"of neither":    {[2]uint64{0, 0}, [2]uint64{1, 0}},
	} {
		for _, newRings := range []func() *fake{newBelled, func() *fake { return newFake(2, Options{Enough: 64}) }} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, b := newRings(), newRings()
					parts := []*source{a.parts[0], b.parts[0]}
					done := inBackground(func() error { return newGroupWaker(a.kernel).wait(t.Context(), parts, 2*time.Hour) })
					time.Sleep(time.Hour)
					a.hold(1, c.unread[0])
					b.hold(0, c.unread[1])
					a.kernel.Wake()
					require.NoError(t, <-done)
					var got, spurious [2]uint64
					for i := range parts {
						n := parts[i].reader.Waits()
						got[i], spurious[i] = n.Wakes, n.Spurious
					}
					require.Equal(t, c.wakes, got)
					require.Equal(t, c.unread == [2]uint64{}, spurious == [2]uint64{1, 0})
				})
			})
		}
	}
}

// A wakeup that ends a doze of several for nothing does not end the wait.
func TestDozeOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newBelled(), newBelled()
		a.kernel.dozes = true
		done := inBackground(func() error {
			return newGroupWaker(a.kernel).wait(t.Context(), []*source{a.parts[0], b.parts[0]}, 0)
		})
		for range 2 {
			time.Sleep(time.Hour)
			a.kernel.Wake()
		}
		synctest.Wait()
		require.Empty(t, done)
		b.hold(0, 8)
		a.kernel.Wake()
		require.NoError(t, <-done)
		require.EqualValues(t, 2, a.Waits().Spurious)
		require.EqualValues(t, 1, b.Waits().Wakes)
	})
}

// A wait notices a ring that is disarmed after the choice of the deadline. The interrupt may come
// too early to end the wait, but the change is noted before it.
func TestDisarmedBeforeTheWaitBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBelled()
		done := inBackground(func() error { return r.waker.wait(t.Context(), r.parts, 0) })
		time.Sleep(time.Hour)
		synctest.Wait() // without a deadline
		interrupted, told := make(chan struct{}), make(chan struct{})
		r.kernel.interrupted = func() {
			close(interrupted)
			synctest.Wait() // until it sleeps
		}
		r.kernel.before = func() {
			r.Entries.armed[0].Store(false) // Disarm, which would hold a lock during the synctest.Wait
			go func() { r.disarmed(); close(told) }()
			<-interrupted
		}
		r.kernel.Still.Interrupt()
		<-told
		r.hold(0, 8) // this wakes nobody
		require.NoError(t, <-done)
	})
}

// A ring that is disarmed while a wait chooses its deadline is seen, or changes the deadline. With
// many rings, the first is looked at long before the choice is made.
func TestDisarmedWhileTheDeadlineIsChosen(t *testing.T) {
	const rings = 1 << 12
	r := newFake(rings, Options{Bell: true, Poll: time.Second})
	e, d := &r.Entries, r.policy.bell
	for i := range rings {
		e.Arm(i)
	}
	const rounds = 500
	var begun, done atomic.Int32
	go func() { // at some moment during the choice
		for n := range int32(rounds) {
			for begun.Load() <= n {
				runtime.Gosched()
			}
			for range 8 * n {
				begun.Load()
			}
			e.Disarm(0)
			d.changed.Store(true)
			done.Add(1)
		}
	}()
	for n := range int32(rounds) {
		e.Arm(0)
		begun.Add(1)
		at := d.deadline()
		for done.Load() <= n {
			runtime.Gosched()
		}
		require.True(t, !at.IsZero() || d.changed.Load(), "nobody looks at the ring")
	}
}
