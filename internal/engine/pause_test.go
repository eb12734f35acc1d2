package engine

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// newBellRings is newFakeRings with a doorbell that looks every second.
func newBellRings() (*fakeRings, *Waker) {
	var count atomic.Int32
	count.Store(2)
	e := NewEntries(2, &count, func(int, kernel.Entry) error { return nil }, func() {})
	return newFakeRings(&Policy{Bell: NewDoorbell(e, time.Second), Enough: 64})
}

// After a pause a wakeup ends the wait at once, and the next look comes one interval later. Until a
// look has found nothing, a wakeup may belong to an output that was read already.
func TestWaitAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newBellRings()
		wait := func() <-chan error { return inBackground(func() error { return w.Wait(t.Context(), w.own, 0) }) }
		done := wait()
		time.Sleep(time.Hour)
		looks := w.own[0].Policy.Counts().Polls
		time.Sleep(time.Hour)
		require.Equal(t, looks, w.own[0].Policy.Counts().Polls, "it does not look any more")
		r.poll.Wake() // with nothing to read: only a pass finds that out
		require.NoError(t, <-done)
		require.Equal(t, WaitCounts{Wakes: 1, Polls: looks}, w.own[0].Policy.Counts())

		done = wait()
		r.poll.Wake()
		synctest.Wait()
		require.Empty(t, done)
		require.Equal(t, WaitCounts{Wakes: 2, Spurious: 1, Polls: looks}, w.own[0].Policy.Counts())
		time.Sleep(time.Second - time.Nanosecond)
		require.Equal(t, looks, w.own[0].Policy.Counts().Polls)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, looks+1, w.own[0].Policy.Counts().Polls)
		r.poll.Wake()
		require.NoError(t, <-done)
	})
}

// After a pause, too, a wakeup by a ring without a waiter ends no other ring's wait, and does not
// restart the looks.
func TestWaitRingAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newBellRings()
		done := inBackground(func() error { return w.WaitRing(t.Context(), 0, nil) })
		time.Sleep(time.Hour)
		looks := w.own[0].Policy.Counts().Polls
		r.unread[1].Store(8)
		r.poll.Wake()
		time.Sleep(time.Hour)
		require.Empty(t, done)
		require.Equal(t, looks, w.own[0].Policy.Counts().Polls)
		r.unread[0].Store(8)
		r.poll.Wake()
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
		for _, newRings := range []func() (*fakeRings, *Waker){newBellRings, func() (*fakeRings, *Waker) { return newFakeRings(&Policy{Enough: 64}) }} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, own := newRings()
					b, others := newRings()
					parts := []Part{own.own[0], others.own[0]}
					done := inBackground(func() error { return newGroupWaker(a.poll).Wait(t.Context(), parts, 2*time.Hour) })
					time.Sleep(time.Hour)
					a.unread[1].Store(c.unread[0])
					b.unread[0].Store(c.unread[1])
					a.poll.Wake()
					require.NoError(t, <-done)
					var got, spurious [2]uint64
					for i := range parts {
						n := parts[i].Policy.Counts()
						got[i], spurious[i] = n.Wakes, n.Spurious
					}
					require.Equal(t, c.wakes, got)
					require.Equal(t, c.unread == [2]uint64{}, spurious == [2]uint64{1, 0})
				})
			})
		}
	}
}

// A wait notices a ring that is disarmed after the choice of the deadline. The interrupt may come
// too early to end the wait, but the change is noted before it.
func TestDisarmedBeforeTheWaitBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newBellRings()
		p := w.own[0].Policy
		done := inBackground(func() error { return w.Wait(t.Context(), w.own, 0) })
		time.Sleep(time.Hour)
		synctest.Wait() // without a deadline
		interrupted, told := make(chan struct{}), make(chan struct{})
		r.interrupted = func() {
			close(interrupted)
			synctest.Wait() // until it sleeps
		}
		r.before = func() {
			p.Bell.entries.Disarm(0)
			go func() { w.Disarmed(p); close(told) }()
			<-interrupted
		}
		r.poll.Interrupt()
		<-told
		r.unread[0].Store(8) // this wakes nobody
		require.NoError(t, <-done)
	})
}

// A ring that is disarmed while a wait chooses its deadline is seen, or changes the deadline. With
// many rings, the first is looked at long before the choice is made.
func TestDisarmedWhileTheDeadlineIsChosen(t *testing.T) {
	const rings = 1 << 12
	var count atomic.Int32
	count.Store(rings)
	e := NewEntries(rings, &count, func(int, kernel.Entry) error { return nil }, func() {})
	for i := range rings {
		e.Arm(i)
	}
	d := NewDoorbell(e, time.Second)
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
