package stream

import (
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// The stream asks about a ring that was half full and has then been quiet for a while.
func TestLossWatch(t *testing.T) {
	const wait = uint64(AskAfter)
	type step struct {
		head, now  uint64
		ask, again bool
	}
	for name, c := range map[string]struct {
		used  uint64
		steps []step
	}{
		"was never full": {ringSize/2 - 1, []step{{8, 10, false, false}, {8, 10 + wait, false, false}}},
		"was full":       {ringSize / 2, []step{{8, 10, false, true}, {8, 9 + wait, false, true}, {8, 10 + wait, true, false}, {8, 10 + 9*wait, false, false}}},
		"goes on":        {ringSize / 2, []step{{8, 10, false, true}, {16, 10 + wait, false, true}, {16, 9 + 2*wait, false, true}, {16, 10 + 2*wait, true, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lossWatch{account: new(raw.Losses)}
			w.filled(c.used, ringSize)
			for _, s := range c.steps {
				ask, again := w.look(s.head, s.now)
				require.Equal(t, s, step{s.head, s.now, ask, again})
			}
		})
	}
}

// An unreported loss appears once, at its place in the order. A later stream knows the losses of an
// earlier one.
func TestLossesOfAQuietRing(t *testing.T) {
	f := newFake(t, 2, Options{})
	f.fill(1, 100, room)
	for range 3 {
		require.Error(t, f.w[1].Output(1000, make([]byte, 12)))
	}
	f.clock = 2000
	got := f.round(true)
	require.Len(t, got, room+1)
	require.EqualValues(t, 2000, got[len(got)-1])
	require.Empty(t, f.round(true), "it was told of")
	f.Remove(f.source)
	left := &f.rings.At(1).Raw.Losses
	require.EqualValues(t, 3, left.Known.Load())
	require.EqualValues(t, 3, left.Advance)
	require.True(t, left.Suspect)

	f.begin(f.opts, f.source.Wakeup)
	f.clock = 3000
	f.asked = nil
	f.StartWait()
	f.next(never)
	f.clock += uint64(AskAfter)
	f.next(never)
	require.Equal(t, []int{1}, f.asked, "suspects are")
	require.Equal(t, uint64(never), f.Earliest())
	f.output(1, f.clock) // this record reports the same losses
	require.Equal(t, []uint64{f.clock}, f.round(true))
	f.Remove(f.source)
	require.EqualValues(t, 3, left.Known.Load())
	require.Zero(t, left.Advance)
	require.False(t, left.Suspect)
}

// An output during the question to the kernel reports its losses itself. Added now, they would
// stand behind it.
func TestLossReportedMeanwhile(t *testing.T) {
	f := newFake(t, 1, Options{})
	f.fill(0, 1, 3)
	require.Error(t, f.w[0].Output(10, ringtest.Payload(10, ringSize)))
	f.clock = 20
	f.opts.Now = func() uint64 {
		if len(f.asked) == 1 {
			f.opts.Now = f.Now
			f.output(0, f.clock)
			f.clock = 30
		}
		return f.clock
	}
	require.Equal(t, []uint64{1, 2, 3}, f.round(true))
	require.Equal(t, []uint64{20, 20}, f.round(true))
	require.EqualValues(t, 1, f.rings.At(0).Raw.Losses.Known.Load())
}
