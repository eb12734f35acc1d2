package perfbuf

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A stream sleeps until the marker's turn has come, also if its wake-up policy lingers.
func TestFlushWhileAStreamLingers(t *testing.T) {
	for name, wakeup := range map[string]Wakeup{
		"bytes":  {Bytes: 8 * recordSize, Linger: time.Minute},
		"events": {Events: 8, Linger: time.Minute},
		"each":   {Events: 1},
	} {
		for held := range uint64(2) {
			t.Run(fmt.Sprintf("%s, %d held", name, held), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const slack = 2 * time.Second
					k, s, clock := timed(t, 2, Options{Wakeup: wakeup}, slack)
					done := waitInBackground(func() error { return s.Wait(t.Context()) })
					for range held {
						k.output(1, clock())
					}
					require.NoError(t, k.Flush())
					at := clock()
					require.NoError(t, <-done)
					require.Equal(t, slack, time.Duration(clock()-at))
					require.Len(t, copies(t, s), int(held)+1)
				})
			})
		}
	}
}
