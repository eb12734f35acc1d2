package perfchan

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
		sum := <-lost
		if sum == 3 { // its sender was quicker than the second
			sum += <-lost
		}
		require.EqualValues(t, 7, sum, "what nobody received is added up")
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

// What nobody has received when all ends is left in a channel with a buffer, added up; without a buffer it
// goes to whoever receives in time.
func TestOutboxRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		rest := func(n uint64) *outbox {
			box := newOutbox(1)
			box.putLost(n)
			box.end()
			return box
		}
		for before := range 4 {
			lost, sum := make(chan uint64, 3), uint64(1)
			for i := range before {
				lost <- uint64(i + 10)
				sum += uint64(i + 10)
			}
			box := rest(1)
			box.sendLost(ended, lost) // may send it
			box.sendRest(lost)
			close(lost)
			for n := range lost {
				sum -= n
			}
			require.Zero(t, sum, "%d before", before)
		}

		lost := make(chan uint64)
		got := make(chan uint64, 1)
		go func() {
			time.Sleep(restWait - 1) // is busy
			got <- <-lost
		}()
		box := rest(5)
		box.sendLost(ended, lost)
		box.sendRest(lost)
		require.EqualValues(t, 5, <-got)

		box, began := rest(5), time.Now()
		box.sendLost(ended, lost)
		box.sendRest(lost) // returns
		require.Equal(t, restWait, time.Since(began))
		began = time.Now()
		rest(0).sendRest(lost)
		require.Zero(t, time.Since(began))
	})
}

// An event larger than the limit is no reason to wait for ever.
func TestOutboxLarge(t *testing.T) {
	box := newOutbox(10)
	require.True(t, box.put([][]byte{make([]byte, 100)}))
}
