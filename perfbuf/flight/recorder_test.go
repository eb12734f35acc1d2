package flight

import (
	"testing"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// underWay is a machine on which a program outputs within each grace period, one with a time of before it at the end of it.
type underWay struct {
	rings // what is not called
	ring  *ringtest.Overwritten
	clock uint64
	waits []uint64 // when they began
}

func (k *underWay) list() []ring { return []ring{{Ring: k.ring.Raw}} }

func (k *underWay) Now() uint64 {
	k.clock += 1000
	return k.clock
}

func (k *underWay) Wait() error {
	k.waits = append(k.waits, k.clock)
	k.ring.Output(k.clock-grace.DefaultGuard, uint64(len(k.waits)), 0)
	return nil
}

// A snapshot has what was under way when it was taken, and ends before all that may begin during the wait for it, on a CPU whose clock is behind
// by the guard.
func TestSnapshotBesideOutputsUnderWay(t *testing.T) {
	k := &underWay{ring: ringtest.NewOverwritten(1 << 12), clock: 1 << 30}
	k.ring.PutSample(k.clock, 0, 0) // is published within the first wait
	called := k.clock
	s, err := newRecorder(k, Options{}).Snapshot(t.Context())
	require.NoError(t, err)
	require.Len(t, k.waits, 2)
	require.Greater(t, s.Until(), called)
	require.Less(t, s.Until(), k.waits[0]-grace.DefaultGuard, "what begins in the wait")
	var times []uint64
	for ev := range s.Events() {
		times = append(times, ev.Time())
	}
	require.Equal(t, []uint64{called}, times)
}
