package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The stream relieves only rings that are too full, and still delivers all events.
func TestRelief(t *testing.T) {
	f := newFake(t, 3, Options{Slack: time.Second, Spill: 1 << 20})
	f.clock = 1e6
	f.fill(0, 1000, 64) // half full
	f.fill(1, 1000, 66)
	f.fill(2, 1000, room)
	f.StartWait()
	require.Equal(t, Pause, f.next(never).Do)
	require.EqualValues(t, 64, (f.w[0].Head()-f.w[0].Tail())/recordSize)
	for _, w := range f.w[1:] {
		require.LessOrEqual(t, (w.Head()-w.Tail())/recordSize, uint64(32))
	}
	require.Positive(t, f.counts.SpillUsed.Load())
	require.Zero(t, f.counts.SpillRefused.Load())
	f.clock = 2e9
	got := f.round(false)
	require.Len(t, got, 64+66+room)
	require.IsNonDecreasing(t, got)
}

// Without a budget the stream copies nothing. It counts refusals of a budget that is too small.
func TestReliefRefused(t *testing.T) {
	for spill, refused := range map[int]uint64{0: 0, 1: 1} {
		f := newFake(t, 1, Options{Slack: time.Second, Spill: spill})
		f.clock = 1e6
		f.fill(0, 1000, room)
		f.StartWait()
		f.next(never)
		require.Zero(t, f.counts.Spilled.Load())
		require.Equal(t, refused, f.counts.SpillRefused.Load())
	}
}

// The next scan comes before the first ring needs relief, at the rate of the latest two.
func TestUntilFull(t *testing.T) {
	for grown, want := range map[int]time.Duration{
		0:  mostScan,
		1:  mostScan,
		32: time.Millisecond, // a quarter of the ring in a ms, and so a half in another
		64: leastScan,        // it is full
	} {
		f := newFake(t, 2, Options{Slack: time.Second})
		f.clock = 1e6
		f.load()
		f.clock += 1e6
		f.fill(1, 1e6, grown)
		f.load()
		require.Equal(t, want, f.untilFull(), "%d records", grown)
	}
}
