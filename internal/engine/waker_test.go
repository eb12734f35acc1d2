package engine

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// fakeRings are two rings, and their owner. Only their numbers of unread bytes are real.
type fakeRings struct {
	kernel.Kernel // only Wait is used
	poll          *ringtest.Poll
	unread        [2]atomic.Uint64
	flushing      atomic.Bool
	closed        atomic.Bool
	asked         atomic.Bool
	retained      atomic.Int32

	before      func() // called before the next Wait
	interrupted func() // called after each
}

func (r *fakeRings) Wait(until time.Time, ready func(bool) bool) error {
	if f := r.before; f != nil {
		r.before = nil
		f()
	}
	return r.poll.Wait(until, ready)
}

func (r *fakeRings) Interrupt() {
	r.poll.Interrupt()
	if r.interrupted != nil {
		r.interrupted()
	}
}

func (r *fakeRings) Len() int               { return len(r.unread) }
func (r *fakeRings) Head(ring int) uint64   { return r.unread[ring].Load() }
func (r *fakeRings) Unread(ring int) uint64 { return r.unread[ring].Load() }
func (r *fakeRings) Flushing() bool         { return r.flushing.Load() }
func (r *fakeRings) Asked(int) bool         { return r.asked.Load() }
func (r *fakeRings) Closed() bool           { return r.closed.Load() }
func (r *fakeRings) Retain()                { r.retained.Add(1) }
func (r *fakeRings) Release()               { r.retained.Add(-1) }

func newFakeRings(p *Policy) (*fakeRings, *Waker) {
	r := &fakeRings{poll: ringtest.NewPoll()}
	return r, newWaker(r, r, len(r.unread), p)
}

func inBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return done
}

// A wakeup with something to read, the poll interval, a flush, a context, or the end of the rings
// ends a wait for all rings. Nothing else does.
func TestWait(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(r *fakeRings, cancel func())
		err   error
		after time.Duration
		count WaitCounts
	}{
		"a wakeup":          {func(r *fakeRings, _ func()) { r.unread[1].Store(8); r.poll.Wake() }, nil, 0, WaitCounts{Wakes: 1}},
		"an interrupt":      {func(r *fakeRings, _ func()) { r.unread[0].Store(64); r.poll.Interrupt() }, nil, 0, WaitCounts{Timer: 1}},
		"the poll interval": {func(r *fakeRings, _ func()) { r.unread[1].Store(8) }, nil, time.Second, WaitCounts{Timer: 1}},
		"a spurious wakeup": {func(r *fakeRings, _ func()) { r.poll.Wake(); synctest.Wait(); r.unread[1].Store(8) }, nil, time.Second, WaitCounts{Wakes: 1, Spurious: 1, Timer: 1}},
		"a flush":           {func(r *fakeRings, _ func()) { r.flushing.Store(true); r.poll.Interrupt() }, nil, 0, WaitCounts{}},
		"the context":       {func(_ *fakeRings, cancel func()) { cancel() }, context.Canceled, 0, WaitCounts{}},
		"closed rings":      {func(r *fakeRings, _ func()) { r.closed.Store(true); r.poll.Interrupt() }, os.ErrClosed, 0, WaitCounts{}},
		"closed rings, and the context before that": {func(r *fakeRings, cancel func()) { r.closed.Store(true); cancel() }, context.Canceled, 0, WaitCounts{}},
		"the longest time of it":                    {func(*fakeRings, func()) {}, nil, time.Hour, WaitCounts{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := newFakeRings(&Policy{Interval: time.Second, Enough: 64})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				done := inBackground(func() error { return w.Wait(ctx, w.own, time.Hour) })
				require.ErrorIs(t, w.Wait(ctx, w.own, 0), ErrBusy)
				require.ErrorIs(t, w.WaitRing(ctx, 0, nil), ErrBusy)
				require.Empty(t, done)
				c.end(r, cancel)
				require.Equal(t, c.err, <-done)
				require.Equal(t, c.after, time.Since(start))
				require.Equal(t, c.count, w.own[0].Policy.Counts())
				require.Zero(t, w.State())
			})
		})
	}
}

// A ring that holds enough ends the wait at once, which does not count as a look.
func TestWaitForEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newFakeRings(&Policy{Interval: time.Second, Enough: 64})
		r.unread[1].Store(64)
		require.NoError(t, w.Wait(t.Context(), w.own, 0))
		require.Zero(t, w.own[0].Policy.Counts())
	})
}

// A wakeup ends only the single-ring waits it concerns. The rings are retained until the last
// waiter has gone.
func TestWaitForOneRingEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newFakeRings(&Policy{Enough: 64})
		closed := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		first := inBackground(func() error { return w.WaitRing(t.Context(), 0, closed) })
		second := inBackground(func() error { return w.WaitRing(ctx, 1, closed) })
		require.ErrorIs(t, w.WaitRing(t.Context(), 0, closed), ErrRingBusy)
		require.ErrorIs(t, w.Wait(t.Context(), w.own, 0), ErrBusy)
		require.Equal(t, State{Waiting: true, Serving: true, Each: 2}, w.State())
		require.Equal(t, int32(1), r.retained.Load())

		r.unread[0].Store(8)
		r.poll.Wake()
		require.NoError(t, <-first)
		synctest.Wait()
		require.Empty(t, second)
		cancel()
		require.Equal(t, context.Canceled, <-second)
		synctest.Wait()
		require.Zero(t, w.State())
		require.Zero(t, r.retained.Load())

		r.asked.Store(true) // a pass has a call to answer: the wait ends at once
		require.NoError(t, w.WaitRing(t.Context(), 0, closed))
		r.asked.Store(false)
		first = inBackground(func() error { return w.WaitRing(t.Context(), 1, closed) })
		close(closed)
		require.Equal(t, os.ErrClosed, <-first)
		synctest.Wait()
		require.Zero(t, r.retained.Load())
	})
}

// Once the wait for a ring has ended, however it did, another goroutine may wait for all rings: the
// serving goroutine does not get in the way.
func TestWaitAfterAWaitForARing(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, wait := range map[string]func(r *fakeRings, w *Waker) error{
		"an event":    func(r *fakeRings, w *Waker) error { r.unread[0].Store(64); return w.WaitRing(t.Context(), 0, nil) },
		"the context": func(_ *fakeRings, w *Waker) error { return w.WaitRing(ended, 0, nil) },
		"a flush": func(r *fakeRings, w *Waker) error {
			done := make(chan error, 1)
			go func() { done <- w.WaitRing(t.Context(), 0, nil) }()
			for w.State().Each == 0 && len(done) == 0 {
				runtime.Gosched()
			}
			r.asked.Store(true)
			defer r.asked.Store(false)
			w.Flush()
			return <-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := newFakeRings(&Policy{Enough: 64})
			for range 5000 {
				r.unread[0].Store(0)
				if err := wait(r, w); err != context.Canceled {
					require.NoError(t, err)
				}
				r.unread[1].Store(64)
				require.NoError(t, w.Wait(t.Context(), w.own, 0))
			}
			require.Zero(t, w.State())
		})
	}
}
