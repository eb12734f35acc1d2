package perfbuf

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A stream sleeps until the marker's turn has come, also if its wakeup policy waits for the poll
// interval.
func TestFlushWhileAStreamPolls(t *testing.T) {
	for name, wakeup := range map[string]Wakeup{
		"bytes":  {Bytes: 8 * recordSize, PollInterval: time.Minute},
		"events": {Events: 8, PollInterval: time.Minute},
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
					require.NoError(t, s.Flush())
					at := clock()
					require.NoError(t, <-done)
					require.Equal(t, slack, time.Duration(clock()-at))
					require.Len(t, copies(t, s), int(held)+1)
				})
			})
		}
	}
}

// latePoller comes to its wait when the deadline is over, and asks nothing then, as Go's poller
// does.
type latePoller struct {
	*fakePoller
	left int // waits until it fails
}

func (p *latePoller) Wait(deadline time.Time, ready func(woken bool) bool) error {
	if p.left--; p.left < 0 {
		return errTest
	}
	time.Sleep(time.Second)
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return os.ErrDeadlineExceeded
	}
	return p.fakePoller.Wait(deadline, ready)
}

// A Flush ends a Wait that looks so often that its deadline is over before the poller has it.
func TestFlushWhileDeadlinesAreOver(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) *fake{
		"bytes": func(t *testing.T) *fake {
			return newFake(t, 2, Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: time.Millisecond}})
		},
		"doorbell": func(t *testing.T) *fake { return newBelled(t, 2).fake },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := make(t)
				k.hooks.poll = &latePoller{k.poll, 100}
				done := waitInBackground(func() error { return k.unordered().Wait(t.Context()) })
				time.Sleep(10*time.Second + time.Millisecond)
				require.NoError(t, k.unordered().Flush())
				at := time.Now()
				require.NoError(t, <-done)
				require.Less(t, time.Since(at), 2*time.Second)
				require.Len(t, copies(t, k.unordered()), 1)
			})
		})
	}
}

// A Flush ends the Wait of a ring's stream, whether it waited then or came later, and no other's. A
// pass answers it, also one that was under way.
func TestFlushEndsRingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 3, Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: time.Hour}})
		var rings []*Stream
		for _, ring := range k.all() {
			rings = append(rings, StreamOf(t, ring))
		}
		wait := func(i int) <-chan error {
			return waitInBackground(func() error { return rings[i].Wait(t.Context()) })
		}
		for round := range uint64(3) {
			start := time.Now()
			waiting, other := wait(0), wait(1)
			k.output(0, 10+round)
			k.output(1, 20+round)
			k.output(2, 30+round)
			blocked(t, waiting)
			require.NoError(t, rings[0].Flush())
			require.NoError(t, rings[2].Flush())
			require.NoError(t, <-waiting)
			require.NoError(t, rings[2].Wait(t.Context()), "it came later")
			require.Equal(t, []uint64{10 + round, ^k.clock.Load()}, ids(t, rings[0]))
			require.NoError(t, rings[2].ForEach(func(ev Event) error {
				k.output(2, 40+round) // this pass does not see it
				if ev.Kind() == KindFlushed {
					return ErrStop
				}
				return rings[2].Flush()
			}))
			require.NoError(t, rings[2].Wait(t.Context()))
			require.Equal(t, start, time.Now())
			require.NotEmpty(t, ids(t, rings[2]))
			blocked(t, other)
			require.Less(t, k.poll.spun, 20)

			// What comes later waits for the poll interval.
			k.output(0, 50+round)
			again := wait(0)
			blocked(t, again)
			require.NoError(t, <-again)
			require.NoError(t, <-other)
			require.Equal(t, time.Hour, time.Since(start))
			for _, ring := range rings {
				ids(t, ring)
			}
			k.alone(t)
		}
	})
}
