package stream

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/ringtest"

	"github.com/stretchr/testify/require"
)

func (f *fake) next(flush uint64) Step {
	f.t.Helper()
	f.Flushes = Flushes{}
	if flush != never {
		f.Flushes.Ask(flush)
	}
	step, err := f.Step()
	require.NoError(f.t, err)
	return step
}

// A stream in slack mode sleeps until an event's turn.
func TestStepsWithSlack(t *testing.T) {
	f := newFake(t, 2, Options{Slack: time.Millisecond})
	f.clock = 1e9
	f.StartWait()
	require.Equal(t, Step{Do: Await}, f.next(never))
	f.output(1, f.clock+5e5)
	f.clock += 1e6
	require.Equal(t, Step{Do: Pause, For: time.Millisecond / 2}, f.next(never))
	f.clock += 5e5
	require.Equal(t, Step{Do: Deliver}, f.next(never))
}

// A stream in exact mode sleeps until a barrier would cover an event, and then until the barrier
// ends.
func TestStepsWithBarriers(t *testing.T) {
	f, b := exact(t, 2)
	f.clock = 1e9
	f.StartWait()
	require.Equal(t, Step{Do: Await}, f.next(never))
	f.output(1, f.clock)
	require.Equal(t, Step{Do: Pause, For: guard + 2}, f.next(never))
	require.False(t, b.Requested(), "it would not be covered")
	f.clock += guard + 2
	require.Equal(t, Sleep, f.next(never).Do)
	require.True(t, b.Requested())
	require.NoError(t, b.Round())
	require.Equal(t, Step{Do: Deliver}, f.next(never))
	require.Equal(t, []uint64{1e9}, f.round(false))

	flush := f.clock
	require.Equal(t, Pause, f.next(flush).Do, "a flush waits for a barrier too")
	f.clock += guard + 2
	require.Equal(t, Sleep, f.next(flush).Do)
	require.NoError(t, b.Round())
	require.Equal(t, Step{Do: Deliver}, f.next(flush))
	require.False(t, f.passed(flush), "not before a round")
	f.Begin()
	require.False(t, f.passed(flush), "nor before its end")
	require.Empty(t, f.batch())
	require.True(t, f.passed(flush))
	f.endRound()
}

// A wait makes the barrier itself if the last one was quick, and asks for none ahead. Without a
// wait, a round asks for the next.
func TestQuickBarriers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 1, Options{})
		var took atomic.Int64
		took.Store(int64(time.Microsecond))
		b := grace.New(ringtest.Provider(func() error { time.Sleep(time.Duration(took.Load())); return nil }), f.Now, grace.BarrierOptions{Interval: 10 * time.Millisecond})
		f.opts.barrier = b
		start := time.Now()
		f.Clock = func() uint64 { return uint64(time.Hour + time.Since(start)) }
		b.Start()
		defer b.Close()
		output := func() {
			f.output(0, f.Now())
			time.Sleep(time.Millisecond)
		}

		f.StartWait()
		output()
		require.Equal(t, Sleep, f.next(never).Do, "no barrier has been quick yet")
		synctest.Wait()
		time.Sleep(time.Microsecond)
		synctest.Wait()
		require.Equal(t, Deliver, f.next(never).Do)

		for range 3 {
			output() // later than the barrier: held back
			f.Begin()
			require.Len(t, f.batch(), 1)
			require.Empty(t, f.batch())
			f.endRound()
			require.False(t, b.Requested())
			f.StartWait()
			step := f.next(never)
			for step.Do == Pause {
				require.LessOrEqual(t, step.For, 10*time.Millisecond)
				time.Sleep(step.For)
				step = f.next(never)
			}
			require.Equal(t, Deliver, step.Do)
		}
		require.EqualValues(t, 4, b.Stats().Count)
		f.Begin()
		require.Len(t, f.batch(), 1)
		f.endRound()
		f.StartWait()
		f.output(0, f.Now())
		step := f.next(never)
		require.Equal(t, Pause, step.Do, "no barrier would cover it yet")
		require.GreaterOrEqual(t, step.For, leastScan, "it sleeps twice")
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, Deliver, f.next(never).Do)

		require.Len(t, f.round(false), 1)
		output()
		f.round(false)
		synctest.Wait()
		time.Sleep(time.Second)
		require.EqualValues(t, 6, b.Stats().Count, "the user does not wait")

		took.Store(int64(time.Second))
		f.StartWait()
		require.Equal(t, Deliver, f.next(never).Do)
		f.round(false)
		f.StartWait()
		output()
		require.Equal(t, Deliver, f.next(never).Do, "the last one was quick, so this wait blocks")
		f.round(false)
		f.StartWait()
		output()
		require.Equal(t, Sleep, f.next(never).Do, "the last one was not")
		time.Sleep(2 * time.Second)
	})
}

// A request that one barrier has served must be made again for the next.
func TestBarrierThatIsReplaced(t *testing.T) {
	f, b := exact(t, 1)
	f.clock = 1e9
	f.output(0, f.clock)
	f.clock += guard + 2
	f.next(never)
	require.True(t, b.Requested())
	_, other := exact(t, 1)
	f.SetBarrier(other)
	f.next(never)
	require.True(t, other.Requested())
}

// A wait gives up once both it and the failure of barriers have lasted a second.
func TestBarriersThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, cause := time.Now(), errors.New("of the test")
		f := newFake(t, 1, Options{})
		f.opts.barrier = grace.New(ringtest.Provider(func() error { return cause }), f.Now, grace.BarrierOptions{})
		f.Clock = func() uint64 { return uint64(time.Hour + time.Since(start)) }
		f.output(0, 1)
		f.StartWait()
		f.next(never)
		time.Sleep(2 * time.Second)
		require.Equal(t, cause, f.opts.barrier.Round())
		require.Equal(t, Sleep, f.next(never).Do, "barriers have not failed for long")
		for range 3 {
			require.Equal(t, Sleep, f.next(never).Do)
			require.Equal(t, cause, f.opts.barrier.Round())
			time.Sleep(time.Second / 2)
		}
		_, err := f.Step()
		require.ErrorIs(t, err, cause)
		f.StartWait()
		require.Equal(t, Sleep, f.next(never).Do, "another wait takes its time")
	})
}

func TestSleepEnds(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	cause := errors.New("of the test")
	for name, c := range map[string]struct {
		before func(s *Ordered, cancel func(error))
		closed chan struct{}
		want   error
		took   time.Duration
	}{
		"time":    {took: time.Minute},
		"WakeUp":  {before: func(s *Ordered, _ func(error)) { s.WakeUp(); s.WakeUp() }},
		"context": {before: func(_ *Ordered, cancel func(error)) { cancel(cause) }, want: cause},
		"close":   {closed: closed, want: os.ErrClosed},
		"barrier": {before: func(s *Ordered, _ func(error)) { s.opts.barrier.Round() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				f, _ := exact(t, 1)
				if c.before != nil {
					c.before(f.Ordered, cancel)
				}
				start := time.Now()
				require.Equal(t, c.want, f.Sleep(ctx, time.Minute, c.closed))
				require.Equal(t, c.took, time.Since(start))
				if c.want == nil {
					require.NoError(t, f.Sleep(t.Context(), time.Second, nil))
					require.Equal(t, c.took+time.Second, time.Since(start), "each ends one sleep")
				}
			})
		})
	}
}
