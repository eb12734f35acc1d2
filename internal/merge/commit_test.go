package merge_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// A record that came out of order into an empty ring has nothing of the main
// run before it. Its bytes are its own all the same until it is delivered.
func TestTailStaysBelowAnEarlyRecordInADrainedRing(t *testing.T) {
	b := newBench(t, 2, 512, 0)
	b.output(0, 100, 12)
	b.round(all)
	b.output(0, 50, 12) // behind one of time 100, which is gone
	b.output(0, 40, 12)
	b.round(10) // neither is due: the watermark has gone back, as after a flush
	require.Equal(t, uint64(32), b.lanes[0].Tail())

	b.scanAll()
	b.m.Begin(all)
	b.next(b.due(all)[0])
	b.finish()
	b.m.End() // the user stops after the one of time 40, which lies behind that of time 50
	require.Equal(t, uint64(32), b.lanes[0].Tail())
	b.round(all)
	b.empty()
	require.Equal(t, 2, b.late)
}

func TestTailIsStoredOnceInARound(t *testing.T) {
	b := newBench(t, 3, 4096, 0)
	for i := range uint64(12) {
		b.output(int(i%2), i, 20)
	}
	b.round(all)
	require.Equal(t, 2, b.commits, "of the two rings that held something")
	b.round(all)
	require.Equal(t, 2, b.commits)
	b.empty()
}

// A round gives memory back on the way, so that it does not keep a ring full.
func TestLongRoundCommitsEarly(t *testing.T) {
	b := newBench(t, 2, 1024, 0)
	b.output(1, 0, 12)
	for i := uint64(1); b.output(0, i, 12); i++ {
	}
	b.scanAll()
	due := b.due(all)
	b.m.Begin(all)
	for n, want := range due {
		b.next(want)
		held := b.lanes[0].Head() - b.lanes[0].Tail()
		undelivered := 32 * uint64(len(due)-1-n)
		require.LessOrEqual(t, held-undelivered, uint64(1024/8+32), "after %d items", n+1)
	}
	require.Zero(t, b.lanes[1].Tail(), "the other ring waits for the end of the round")
	b.over()
	b.empty()
	require.InDelta(t, 8, b.commits, 1.5)
}

// What is written into room that the round itself has freed comes in another round.
func TestOutputWithinARound(t *testing.T) {
	b := newBench(t, 1, 512, 1<<32-256)
	for i := uint64(1); b.output(0, i, 12); i++ {
	}
	b.scanAll()
	due := b.due(all)
	b.m.Begin(all)
	more := 0
	for i, want := range due {
		b.next(want)
		if b.output(0, uint64(100+i), 12) {
			more++
		}
	}
	b.over()
	require.NotZero(t, more)
	require.NotEmpty(t, b.lanes[0].pending)
	b.round(all)
	b.empty()
}

// Nothing of a round that is given up is lost or comes twice.
func TestRoundGivenUpGoesOnWithTheNext(t *testing.T) {
	for stop := range 6 {
		b := newBench(t, 2, 1024, 64)
		for i, time := range []uint64{10, 30, 20, 40, 25, 50} { // 20 and 25 lie behind 30 and 40
			b.output(0, time, 12)
			b.output(1, 12+uint64(i), 12)
		}
		b.scanAll()
		due := b.due(all)
		b.m.Begin(all)
		for _, want := range due[:stop] {
			b.next(want)
		}
		b.finish()
		b.m.End()
		require.Nil(t, next(b.m), "the round is over")
		b.round(all)
		b.empty()
		require.Equal(t, 12, b.delivered)
		require.Zero(t, b.late)
	}
}

func TestEarliest(t *testing.T) {
	b := newBench(t, 3, 512, 0)
	earliest := func() any {
		key, ok := b.m.Earliest()
		if !ok {
			return nil
		}
		return key
	}
	require.Nil(t, earliest())
	b.output(1, 20, 12)
	require.Nil(t, earliest(), "not scanned yet")
	b.scanAll()
	require.Equal(t, uint64(20), earliest())
	b.output(1, 15, 12)
	b.scanAll()
	require.Equal(t, uint64(15), earliest(), "behind the one of time 20")
	b.output(2, 17, 12)
	b.scanAll()
	require.Equal(t, uint64(15), earliest())
	b.round(16)
	require.Equal(t, uint64(17), earliest())
	b.round(all)
	require.Nil(t, earliest())
	b.throttle(0, 8)
	b.lanes[0].Put(ringtest.TypeLost, make([]byte, 24)) // of nothing
	b.scanAll()
	require.Nil(t, earliest(), "nothing of this is delivered")
	b.round(all)
	b.empty()
}
