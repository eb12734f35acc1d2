package perfbuf

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A pass disarms a ring after Wait has chosen never to look again, and before the poller has that as its
// deadline, which replaces the interrupt. Wait chooses anew.
func TestDoorbellDisarmedBeforeTheLastWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		var disarmed atomic.Bool
		k.hooks.poll = &hookedPoller{k.poll, func() {
			if !disarmed.Load() && k.in.Policy.Bell.Idle() {
				disarmed.Store(true)
				k.output(0, 1)
				require.Len(t, ids(t, k.all()[0]), 1)
				k.requireEntries(plainEntry, bellEntry)
			}
		}}
		done := waitInBackground(func() error { return k.Wait(t.Context()) })
		for blocked(t, done); !disarmed.Load(); blocked(t, done) {
			time.Sleep(bellPollInterval)
		}
		require.NoError(t, k.emit(0, 2)) // rings no bell
		start := time.Now()
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Since(start), bellPollInterval)
	})
}
