package grace

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Try makes rounds in the caller's goroutine while they are quick, succeed and are not requested,
// at the interval on average.
func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took atomic.Int64
		var fails atomic.Bool
		took.Store(int64(time.Microsecond))
		b := New(waitFunc(func() error {
			time.Sleep(time.Duration(took.Load()))
			if fails.Load() {
				return errors.New("no")
			}
			return nil
		}), func() uint64 { return 1 << 40 }, BarrierOptions{Interval: saved})
		refused := func(why string) {
			t.Helper()
			count := b.Stats().Count
			_, ok := b.Try()
			require.False(t, ok, why)
			require.Equal(t, count, b.Stats().Count)
		}
		require.NoError(t, b.Round())
		refused("not started: somebody else makes the rounds")
		b.Start()
		defer b.Close()
		begin := time.Now()
		for n := range 3 {
			wait, ok := b.Try()
			require.True(t, ok)
			if wait > 0 {
				time.Sleep(wait)
				wait, ok = b.Try()
			}
			require.True(t, ok)
			require.Zero(t, wait)
			require.Equal(t, time.Duration(n)*saved, time.Since(begin)-time.Microsecond, "not made at once")
			require.EqualValues(t, n+2, b.Stats().Count)
		}

		b.Request()
		refused("requested")
		time.Sleep(time.Minute)

		took.Store(int64(quickly))
		_, ok := b.Try()
		require.True(t, ok)
		refused("slow")
		took.Store(int64(time.Microsecond))
		require.NoError(t, b.Round())
		require.True(t, b.Quick())

		time.Sleep(time.Minute)
		fails.Store(true)
		_, ok = b.Try()
		require.True(t, ok)
		refused("failed")
		begin = time.Now()
		b.Request()
		<-b.Done() // of earlier rounds
		<-b.Done()
		require.GreaterOrEqual(t, time.Since(begin), backoff)
		b.Close()
		refused("closed")
	})
}
