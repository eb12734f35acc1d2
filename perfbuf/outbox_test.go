package perfbuf

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// What waits is bounded, comes in order, and before what comes later.
func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * (100 + eventCost)
		box := newOutbox(limit)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		put := 0
		go func() {
			for i := range 100 {
				data := make([]byte, 100)
				data[0] = byte(i)
				if !box.put([][]byte{data}) {
					return
				}
				put++
			}
			box.putLost(3)
			box.putLost(4)
			box.end()
		}()
		synctest.Wait()
		require.Equal(t, 11, put, "as many as fit, and one")

		events, lost := make(chan []byte), make(chan uint64)
		buffered := make(chan []byte, 1)
		require.False(t, box.direct(buffered, nil), "others wait")
		go box.sendEvents(ctx, events)
		go box.sendLost(ctx, lost)
		for i := range 100 {
			require.EqualValues(t, i, (<-events)[0])
			synctest.Wait()
			require.LessOrEqual(t, put, i+1+11+1, "one is with the sender")
		}
		require.EqualValues(t, 7, <-lost, "what nobody received is added up")
		synctest.Wait()
		require.True(t, box.direct(buffered, nil), "nothing waits")
		require.False(t, box.direct(buffered, nil), "the channel is full")
	})
}

// Stop releases those who wait: for room, for something to send, for a receiver.
func TestOutboxStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newOutbox(1)
		ctx, cancel := context.WithCancel(t.Context())
		require.True(t, box.put([][]byte{nil}))
		full := make(chan bool)
		go func() { full <- box.put([][]byte{nil}) }()
		go box.sendLost(ctx, nil)
		synctest.Wait()
		cancel()
		box.stop()
		require.False(t, <-full)
		require.False(t, box.put([][]byte{nil}))
		box.sendEvents(ctx, nil) // returns
		box.end()
	})
}

// An event larger than the limit is no reason to wait for ever.
func TestOutboxLarge(t *testing.T) {
	box := newOutbox(10)
	require.True(t, box.put([][]byte{make([]byte, 100)}))
}
