package perfbuf

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A stream sleeps until the marker's turn has come, also if its wakeup policy waits for the poll interval.
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

// latePoller comes to its wait when the deadline is over, and asks nothing then, as Go's poller does.
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
				done := waitInBackground(func() error { return k.Wait(t.Context()) })
				time.Sleep(10*time.Second + time.Millisecond)
				require.NoError(t, k.Flush())
				at := time.Now()
				require.NoError(t, <-done)
				require.Less(t, time.Since(at), 2*time.Second)
				require.Len(t, copies(t, k.Reader), 1)
			})
		})
	}
}

// Who waits for a ring gets what it held at the time of the Flush, whether it waited then or came later. Nobody spins, though no pass over
// a ring answers the Flush.
func TestFlushEndsRingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 4, Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: time.Hour}})
		wait := func(i int) <-chan error {
			return waitInBackground(func() error { return k.all()[i].Wait(t.Context()) })
		}
		for round := range uint64(3) {
			start := time.Now()
			waiting, empty := wait(0), wait(1)
			k.output(0, 10+round)
			k.output(2, 20+round)
			blocked(t, waiting)
			require.NoError(t, k.Flush())
			require.NoError(t, <-waiting)
			require.Equal(t, []uint64{10 + round}, ids(t, k.all()[0]))
			blocked(t, empty)
			require.NoError(t, k.all()[2].Wait(t.Context()), "it came later")
			require.Equal(t, start, time.Now())
			require.Equal(t, []uint64{20 + round}, ids(t, k.all()[2]))
			require.Less(t, k.poll.spun, 20)

			// What has come since waits for the poll interval, for those who have had theirs and for those who had nothing.
			k.output(0, 30+round)
			k.output(1, 40+round)
			k.output(2, 50+round)
			k.output(3, 60+round)
			again := []<-chan error{wait(0), empty, wait(2), wait(3)}
			for _, done := range again {
				blocked(t, done)
			}
			for i, done := range again {
				require.NoError(t, <-done)
				ids(t, k.all()[i])
			}
			require.Equal(t, time.Hour, time.Since(start))
			k.alone(t)
		}
		require.Len(t, copies(t, k.Reader), 1, "one for all")
	})
}

// A Flush that comes while a ring is read is answered by its next Wait if something is left, and by nothing if not.
func TestFlushWhileARingIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: time.Hour}})
		ring := k.all()[0]
		read := func(more bool) {
			require.NoError(t, ring.ForEach(func(ev Event) error {
				if more {
					k.output(0, ev.Time()+1) // this pass does not see it
				}
				return k.Flush()
			}))
		}
		k.output(0, 1)
		read(true)
		start := time.Now()
		require.NoError(t, ring.Wait(t.Context()))
		require.Equal(t, start, time.Now())
		read(false)
		done := waitInBackground(func() error { return ring.Wait(t.Context()) })
		k.output(0, 3)
		blocked(t, done)
		require.NoError(t, <-done)
		require.Equal(t, time.Hour, time.Since(start))
		k.alone(t)
	})
}
