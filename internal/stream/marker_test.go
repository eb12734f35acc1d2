package stream

import (
	"math"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A round completes the stream up to its watermark.
func TestComplete(t *testing.T) {
	f, b := exact(t, 2)
	require.Zero(t, f.Complete())
	f.output(0, 1e6, 5e6)
	f.output(1, 2e6)
	f.clock = 4e6
	require.NoError(t, b.Round())
	require.Zero(t, f.Complete(), "a barrier alone delivers nothing")

	f.Begin()
	f.took(len(f.batch()))
	require.Zero(t, f.Complete(), "there may be more")
	for evs := f.batch(); len(evs) > 0; evs = f.batch() { // one event at a time in the poison build
		require.Zero(t, f.Complete())
		f.took(len(evs))
	}
	require.EqualValues(t, 4e6-guard-1, f.Complete(), "at the end, before the marker")
	f.endRound()

	f.round(true)
	require.EqualValues(t, 4e6-guard-1, f.Complete(), "delivering all proves nothing")
	f.BeginAll(6e6)
	require.Empty(t, f.batch())
	f.endRound()
	require.EqualValues(t, 6e6-guard-1, f.Complete(), "having waited does")
	f.round(false)
	require.EqualValues(t, 6e6-guard-1, f.Complete(), "it does not go back")
}

// A marker comes after an event with the exact time of its call, even if the event came late.
func TestMarkerAfterAnEventOfItsTime(t *testing.T) {
	f := newFake(t, 1, Options{})
	f.clock = 1e6
	f.round(false)
	require.EqualValues(t, 1e6, f.Complete())
	require.True(t, f.passed(1e6))
	f.output(0, 1e6)
	f.next(1e6)
	require.False(t, f.passed(1e6))
	f.round(false)
	require.True(t, f.passed(1e6))
}

// A round that ends early completes the stream up to the first event it leaves.
func TestCompleteOfARoundThatEndsEarly(t *testing.T) {
	for taken, want := range map[int]uint64{0: 999, 1: 1999, 2: 1999, 3: 2999, 4: 1e6} {
		f := newFake(t, 2, Options{Slack: time.Millisecond})
		f.clock = 2e6
		f.output(0, 1000, 2000)
		f.output(1, 2000, 3000)
		f.Begin()
		for left := taken; left > 0; {
			n := min(left, len(f.batch()))
			f.took(n)
			left -= n
		}
		if taken == 4 {
			require.Empty(t, f.batch())
		}
		f.endRound()
		require.Equal(t, want, f.Complete(), "%d taken", taken)
		f.round(false)
		require.EqualValues(t, 1e6, f.Complete())
	}
}

// Nothing precedes the earliest time.
func TestCompleteFromZeroOn(t *testing.T) {
	f := newFake(t, 1, Options{})
	f.output(0, 0)
	f.clock = 1000
	f.Begin()
	f.endRound()
	require.Zero(t, f.Complete())
	f.round(false)
	require.EqualValues(t, 1000, f.Complete())
}

// With slack, an event that comes too late does not move Complete back.
func TestCompleteIsAGuessWithSlack(t *testing.T) {
	f := newFake(t, 2, Options{})
	f.clock = 1000
	f.round(false)
	f.output(0, 500)
	f.Begin()
	f.endRound()
	require.EqualValues(t, 1000, f.Complete())
}

// every makes a stream at time 0 that flushes every second. Without slack it is exact.
func every(t *testing.T, o Options) (f *fake, b *grace.Barrier) {
	o.FlushEvery = time.Second
	if o.Slack == 0 {
		b = grace.New(ringtest.Provider(func() error { return nil }), func() uint64 { return f.clock }, grace.BarrierOptions{})
		o.barrier = b
	}
	f = newFake(t, 2, o)
	f.StartWait()
	return f, b
}

// marked makes a round, and reports whether a marker is due at its end.
func (f *fake) marked() bool {
	f.Begin()
	defer f.endRound()
	require.Empty(f.t, f.batch())
	if !f.markerDue() {
		return false
	}
	f.noteMarker()
	require.False(f.t, f.markerDue(), "once")
	return true
}

// With slack, a wait that holds nothing ends once a round can complete the interval, without
// another look.
func TestFlushEveryWithSlack(t *testing.T) {
	const slack = 100 * time.Millisecond
	f, _ := every(t, Options{Slack: slack})
	require.Equal(t, Step{Do: Await, For: time.Second + slack}, f.next(never))
	f.clock = uint64(600 * time.Millisecond)
	require.False(t, f.marked())
	require.Equal(t, Step{Do: Await, For: 500 * time.Millisecond}, f.next(never))

	f.output(1, f.clock) // to leave the wait's pace
	require.Equal(t, Pause, f.next(never).Do)
	f.clock += uint64(slack)
	require.Equal(t, Deliver, f.next(never).Do)
	require.Len(t, f.round(false), 1)

	f.clock = uint64(time.Second + slack)
	require.Equal(t, Deliver, f.next(never).Do)
	require.True(t, f.marked())
	require.EqualValues(t, time.Second, f.Complete())
	require.Equal(t, Step{Do: Await, For: time.Second}, f.next(never))
}

// In exact mode it ends once a barrier can complete the interval, and the barrier makes the round
// due.
func TestFlushEveryWithBarriers(t *testing.T) {
	f, b := every(t, Options{})
	require.Equal(t, Step{Do: Await, For: time.Second + guard + 2}, f.next(never))
	f.clock = uint64(time.Second + guard + 1)
	require.Equal(t, Step{Do: Await, For: 1}, f.next(never))
	require.False(t, f.marked())
	require.False(t, b.Requested())
	f.clock++
	require.Equal(t, Sleep, f.next(never).Do)
	require.True(t, b.Requested())
	require.NoError(t, b.Round())
	require.Equal(t, Deliver, f.next(never).Do)
	require.True(t, f.marked())
	require.EqualValues(t, time.Second+1, f.Complete())
	require.Equal(t, Step{Do: Await, For: time.Second + 1}, f.next(never))

	f.clock += uint64(time.Second + 1)
	require.False(t, f.marked(), "a round without a wait asks for the barrier")
	require.True(t, b.Requested())
	require.NoError(t, b.Round())
	require.True(t, f.marked())
}

// The marker of a call puts off the next one. Consecutive calls that cannot be answered yet do not.
func TestFlushEveryAndCalls(t *testing.T) {
	const slack, half = 100 * time.Millisecond, uint64(time.Second / 2)
	f, _ := every(t, Options{Slack: slack})
	f.clock = half
	require.Equal(t, Pause, f.next(half).Do)
	f.clock += uint64(slack)
	require.Equal(t, Deliver, f.next(half).Do)
	f.Begin()
	require.Empty(t, f.batch())
	require.True(t, f.passed(half))
	f.noteMarker()
	f.endRound()
	require.Equal(t, Step{Do: Await, For: time.Second}, f.next(never))

	f.clock += uint64(time.Second)
	require.Equal(t, Deliver, f.next(f.clock-1).Do)
	require.True(t, f.marked())
	require.Equal(t, Pause, f.next(f.clock-1).Do, "it goes on waiting for the call's")
}

// A sooner look at the rings still happens.
func TestFlushEveryLooksAtRings(t *testing.T) {
	f, _ := every(t, Options{Slack: time.Millisecond})
	f.merger.rings[1].losses.account.Suspect = true
	f.merger.rings[1].losses.head = 1 // so that it has moved
	require.Equal(t, Step{Do: Await, For: AskAfter}, f.next(never))
	f.clock = uint64(time.Second - 2*time.Millisecond)
	f.merger.rings[1].losses.since = f.clock
	require.Equal(t, Step{Do: Await, For: 3 * time.Millisecond}, f.next(never))
}

// A second round at the same time has no marker, and centuries do not overflow.
func TestFlushEveryForEver(t *testing.T) {
	f := newFake(t, 1, Options{FlushEvery: math.MaxInt64, Slack: math.MaxInt64})
	f.clock = 1e18
	f.StartWait()
	require.Equal(t, Await, f.next(never).Do)
	require.False(t, f.marked())
	require.Greater(t, f.next(never).For, 24*time.Hour)
}

// A marker waits for its turn after events that were delivered early, and no round starts before.
func TestMarkerBehindWhatWasNotDue(t *testing.T) {
	const slack = 100 * time.Millisecond
	f, _ := every(t, Options{Slack: slack})
	f.clock = 500e6
	f.output(0, f.clock)
	require.Len(t, f.round(true), 1)
	f.clock = 550e6
	require.Equal(t, Pause, f.next(450e6).Do, "the call's time is due, the event's is not")
	require.False(t, f.passed(450e6))
	f.clock = 600e6
	require.Equal(t, Deliver, f.next(450e6).Do)
	require.False(t, f.marked())
	require.True(t, f.passed(450e6))
}
