package perfbuf

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A pass disarms a ring while looks have become rare. What comes then rings no bell, and is seen
// after the poll interval all the same.
func TestPassDisarmsWhileLooksAreRare(t *testing.T) {
	// Until all rings are armed, and the next look is more than a second away
	idle := func(t *testing.T, k *belled) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, k.unordered().Wait(ctx), context.DeadlineExceeded)
		k.requireEntries(bellEntry, bellEntry)
	}
	t.Run("before the Wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newBelled(t, 2)
			idle(t, k)
			require.NoError(t, k.emit(1, 1))
			require.Equal(t, []uint64{1}, ids(t, k.unordered()))
			require.NoError(t, k.emit(1, 2))
			start := time.Now()
			require.NoError(t, k.unordered().Wait(t.Context()))
			require.LessOrEqual(t, time.Since(start), bellPollInterval)
		})
	})
}
