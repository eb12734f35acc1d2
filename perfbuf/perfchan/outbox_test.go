package perfchan

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The queue is bounded and keeps its order, and later events do not overtake it.
func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * (100 + eventCost)
		box := newOutbox(limit)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events, lost := make(chan []byte, 1), make(chan uint64)
		put := 0
		go func() {
			for i := range 100 {
				data := make([]byte, 100)
				data[0] = byte(i)
				box.send(events, data)
				if !box.put() {
					return
				}
				put++
			}
			box.putLost(3)
			box.putLost(4)
			box.end()
		}()
		synctest.Wait()
		require.Equal(t, 12, put, "one that was sent, as many as fit, and one")
		go box.sendEvents(ctx, events)
		go box.sendLost(ctx, lost)
		for i := range 100 {
			require.EqualValues(t, i, (<-events)[0])
			synctest.Wait()
			require.LessOrEqual(t, put, i+1+11+2, "one is in the channel, and one with the sender")
		}
		sum := <-lost
		if sum == 3 { // its sender was quicker than the second
			sum += <-lost
		}
		require.EqualValues(t, 7, sum, "what nobody received is added up")
	})
}

// After an event of a batch had to wait, the events behind it do not overtake it when there is room
// again.
func TestOutboxBatch(t *testing.T) {
	box, events := newOutbox(1000), make(chan []byte, 1)
	for _, data := range []string{"a", "b"} {
		box.send(events, []byte(data))
	}
	require.Equal(t, "a", string(<-events))
	box.send(events, []byte("c"))
	require.Empty(t, events)
	require.True(t, box.put())
	box.send(events, []byte("d"))
	require.True(t, box.put())
	box.end()
	go box.sendEvents(t.Context(), events)
	for _, data := range []string{"b", "c", "d"} {
		require.Equal(t, data, string(<-events))
	}
}

// Stop releases goroutines that wait for room, for something to send, or for a receiver.
func TestOutboxStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newOutbox(1)
		ctx, cancel := context.WithCancel(t.Context())
		put := func() bool {
			box.send(nil, nil)
			return box.put()
		}
		require.True(t, put())
		full := make(chan bool)
		go func() { full <- put() }()
		go box.sendLost(ctx, nil)
		synctest.Wait()
		cancel()
		box.stop()
		require.False(t, <-full)
		require.False(t, put())
		box.sendEvents(ctx, nil) // returns
		box.end()
	})
}

// At the end, a channel with a buffer keeps the sum of the unreceived losses. Without a buffer, a
// prompt receiver gets it.
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
	box.send(nil, make([]byte, 100))
	require.True(t, box.put())
}
