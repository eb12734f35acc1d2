package merge_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

// full is a ring of 512 bytes that is full of samples of times 1 to 15, and has lost n more.
func full(t *testing.T, rings, n int, spill int) *bench {
	b := setup{rings: rings, size: 512, start: 1<<32 - 64, spill: spill}.bench(t)
	for i := range uint64(15 + n) {
		b.output(0, i+1, 12)
	}
	require.Equal(t, n, b.failed)
	b.scanAll()
	return b
}

func TestLossThatNoRecordReports(t *testing.T) {
	b := full(t, 2, 3, 0)
	b.lose(0, 50)
	b.lose(0, 60)
	require.Equal(t, 3, b.added, "the second time there is nothing to add")
	b.round(49)
	require.Zero(t, b.lost)
	b.round(50)
	require.Equal(t, 3, b.lost)
	require.Equal(t, uint64(3), b.m.Advance(0))
	b.output(0, 70, 12)
	b.round(all)
	require.Equal(t, 3, b.lost, "the record that reports them is cut to nothing")
	require.Zero(t, b.m.Advance(0))
	b.empty()
}

// The record reports more than was added.
func TestRecordOfLossesIsCut(t *testing.T) {
	b := full(t, 1, 3, 512)
	b.lose(0, 50)
	b.output(0, 51, 12)
	b.output(0, 52, 12)
	b.spill(0)
	require.Equal(t, b.m.Scanned(0), b.m.Freed(0))
	b.output(0, 60, 12)
	b.round(55)
	require.Equal(t, 3, b.lost)
	b.round(all)
	require.Equal(t, 5, b.lost)
	b.empty()
}

// It is one loss in one interval, until more records come or the first is delivered.
func TestLossesAddedTwice(t *testing.T) {
	b := full(t, 1, 3, 0)
	b.lose(0, 50)
	b.output(0, 55, 12)
	b.lose(0, 60)
	require.Len(t, b.due(all), 16)
	b.round(55)
	require.Zero(t, b.lost)
	b.round(all)
	require.Equal(t, 4, b.lost)
	b.empty()

	b = full(t, 1, 3, 512)
	b.lose(0, 50)
	b.spill(0)
	b.output(0, 55, 12) // reports the fourth too, in a record
	b.scanAll()
	for b.output(0, 56, 12) {
	}
	b.lose(0, 60)
	b.round(all)
	b.scanAll()
	b.round(all)
	require.Equal(t, b.failed, b.lost)
	b.empty()
}

// Added in the middle of a round that is to deliver what was added before: that round goes on as it
// was planned.
func TestLossAddedWithinARound(t *testing.T) {
	for stop := range 18 {
		b := full(t, 1, 2, 0)
		b.lose(0, 8)
		due := b.begin(12)
		require.Len(t, due, 13)
		for i, want := range due {
			if i == stop {
				for range 3 {
					b.failOnce(99)
					b.lose(0, 9)
				}
			}
			b.next(want)
			b.finish()
		}
		if stop%2 == 0 {
			b.over()
		} else {
			b.end()
		}
		b.failOnce(100)
		b.lose(0, 20)
		b.round(all)
		require.Equal(t, b.failed, b.lost)
		b.output(0, 200, 12)
		b.round(all)
		b.empty()
	}
}

// failOnce is an output that fails however much room there is.
func (b *bench) failOnce(time uint64) { b.output(0, time, 490) }

// A round is given up in front of a loss that was added, and more were added meanwhile.
func TestRoundGivenUpBeforeAnAddedLoss(t *testing.T) {
	b := full(t, 1, 2, 0)
	b.lose(0, 8)
	due := b.begin(12)
	for _, want := range due[:4] {
		b.next(want)
	}
	b.finish()
	b.failOnce(99)
	b.lose(0, 6)
	b.end()
	b.failOnce(99)
	b.lose(0, 30)
	sum, losses := 0, 0
	b.lanes[0].pending = nil // the model does not say into how many they are put together
	b.m.Begin(all)
	last := uint64(0)
	for it := next(b.m); it != nil; it = next(b.m) {
		require.GreaterOrEqual(t, it.Key, last)
		last = it.Key
		if it.Kind == raw.Lost {
			sum += int(it.Lost)
			losses++
			require.LessOrEqual(t, it.After, it.Key)
		}
	}
	b.m.End()
	require.Equal(t, 4, sum)
	require.LessOrEqual(t, losses, 2)
}

// What is added lies in no place of the ring: a tail that stops there would be within a record.
func TestTailIsNeverInTheMiddleOfARecord(t *testing.T) {
	b := full(t, 1, 1, 512)
	b.lose(0, 100)
	b.round(50)
	require.Equal(t, b.lanes[0].Head(), b.lanes[0].Tail())
	b.output(0, 60, 100)
	b.scanAll()
	b.lose(0, 110)
	require.NotZero(t, b.spill(0))
	require.Equal(t, b.lanes[0].Head(), b.lanes[0].Tail())
	b.round(all)
	b.empty()

	b = setup{rings: 1, size: large, spill: 9 * block}.bench(t) // here chunks are shorter than the ring
	for i := uint64(1); b.room(0, 6000); i++ {
		b.output(0, i, 5000)
		if i%3 == 0 {
			b.output(0, i, 60000)
		}
		b.scanAll()
		b.lose(0, 1000)
	}
	for b.spill(0) > 0 {
	}
	require.Equal(t, b.lanes[0].Head(), b.lanes[0].Tail())
	b.round(500)
	b.round(all)
	b.empty()
}
