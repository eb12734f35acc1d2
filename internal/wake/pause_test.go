package wake

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// After a pause a wake-up ends the wait at once, and the next look comes after the interval from then on. Before there was a look that
// has found nothing, a wake-up may be that of an output which was read already.
func TestWaitAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int32
		count.Store(2)
		e := NewEntries(2, &count, func(int, kernel.Entry) error { return nil }, func() {})
		r, w := newFakeRings(Policy{Bell: NewDoorbell(e, time.Second), Enough: 64})
		wait := func() <-chan error { return inBackground(func() error { return w.Wait(t.Context(), r, 0) }) }
		done := wait()
		time.Sleep(time.Hour)
		require.True(t, w.Bell().Idle())
		r.poll.Wake() // and nothing to read: it is a pass that finds out
		require.NoError(t, <-done)
		require.Equal(t, Counts{Wakes: 1, Polls: w.Counts().Polls}, w.Counts())
		require.False(t, w.Bell().Idle())

		looks := w.Counts().Polls
		done = wait()
		r.poll.Wake()
		synctest.Wait()
		require.Empty(t, done)
		require.Equal(t, Counts{Wakes: 2, Spurious: 1, Polls: looks}, w.Counts())
		time.Sleep(time.Second - 1)
		require.Equal(t, looks, w.Counts().Polls)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, looks+1, w.Counts().Polls)
		r.poll.Wake()
		require.NoError(t, <-done)
	})
}
