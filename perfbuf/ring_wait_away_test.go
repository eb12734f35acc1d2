package perfbuf

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// doneWhenAsked is a context that is done from when it is asked for Done, which it answers when
// before has returned.
type doneWhenAsked struct {
	context.Context
	before, cancel func()
}

func (c doneWhenAsked) Done() <-chan struct{} {
	c.before()
	c.cancel()
	return c.Context.Done()
}

// The ring is served just as the context is done. Whichever Wait goes by, the other is not left
// behind: the next Wait begins anew.
func TestRingWaitEndsAsItIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 2, Options{})
		ring := k.all()[0]
		serve := func() {
			k.output(0, 1)
			k.poll.wake()
			synctest.Wait()
			require.Equal(t, []int{0}, k.in.Waker.State().Ended)
		}
		ways := map[error]int{}
		for range 64 { // a way by chance each: select chooses
			other, cancel := context.WithCancel(t.Context())
			stays := waitInBackground(func() error { return StreamOf(t, k.all()[1]).Wait(other) })
			ctx, goAway := context.WithCancel(t.Context())
			ways[StreamOf(t, ring).Wait(doneWhenAsked{ctx, serve, goAway})]++
			require.Empty(t, k.in.Waker.State().Ended)
			require.Len(t, ids(t, StreamOf(t, ring)), 1)
			blocked(t, stays)
			require.Equal(t, 1, k.in.Waker.State().Each)

			done := waitInBackground(func() error { return StreamOf(t, ring).Wait(t.Context()) })
			blocked(t, done)
			k.output(0, 2)
			k.poll.wake()
			require.NoError(t, <-done)
			require.Len(t, ids(t, StreamOf(t, ring)), 1)
			cancel()
			require.Equal(t, context.Canceled, <-stays)
			k.alone(t)
		}
		require.Len(t, ways, 2, "served, or done: %v", ways)
	})
}
