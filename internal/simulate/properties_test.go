package simulate_test

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/simulate"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// event holds the properties of an event that do not depend on where its bytes were stored.
type event struct {
	kind        perfbuf.Kind
	cpu         int
	time        uint64
	lost, after uint64
	bytes       string
}

func delivered(t *testing.T, s simulate.Setup, seed uint64) (all []event, res simulate.Result) {
	t.Helper()
	s.Delivered = func(ev perfbuf.Event) {
		b := ev.Bytes()
		b = b[:max(0, len(b)-7)] // padding holds old bytes
		all = append(all, event{ev.Kind(), ev.CPU(), ev.Time(), ev.Lost(), ev.LostAfter(), string(b)})
	}
	res, err := simulate.Run(s, seed)
	require.NoError(t, err)
	return all, res
}

// Rings that do not overflow hold the same records however the reader behaves. The stream must then
// be the same too, with or without spilling, and however passes and barriers fall.
func TestSpillChangesNothing(t *testing.T) {
	for name, s := range map[string]simulate.Setup{
		"kernel time":  {CPUs: 4, Skew: skew},
		"payload time": {CPUs: 4, Skew: skew, Payload: true, Start: near64},
		"8 CPUs":       {CPUs: 8, Start: near32},
	} {
		t.Run(name, func(t *testing.T) {
			s.Steps, s.RingBytes = steps, 64<<10
			spilled := 0
			runs(4, func(seed uint64) {
				s.Stream.Spill = perfbuf.Spill{Bytes: -1}
				want, res := delivered(t, s, seed)
				require.Zero(t, res.Lost, "seed %d", seed)
				require.Zero(t, res.Spilled)
				for _, spill := range []perfbuf.Spill{{Above: 1, Until: 1}, {Above: 2, Until: 1, Bytes: 64 << 10}} {
					s.Stream.Spill = spill
					got, res := delivered(t, s, seed)
					require.Equal(t, want, got, "seed %d", seed)
					if res.Spilled > 0 {
						spilled++
					}
				}
			})
			require.NotZero(t, spilled)
		})
	}
}

// A seed determines a run, so a failure can be repeated.
func TestSameSeedSameTrace(t *testing.T) {
	for name, s := range map[string]simulate.Setup{
		"exact":     {CPUs: 4, RingBytes: small, Skew: skew},
		"payload":   {CPUs: 2, RingBytes: small, Skew: skew, Payload: true},
		"slack":     {CPUs: 4, RingBytes: small, Slack: 50 * time.Microsecond},
		"abandoned": {CPUs: 4, RingBytes: small, Skew: skew, Abandon: true},
		"mixed":     {CPUs: 4, RingBytes: small, Skew: skew, Sources: all, Changes: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.Steps = steps
			seen := map[uint64]bool{}
			n := 0
			runs(2, func(seed uint64) {
				first, err := simulate.Run(s, seed)
				require.NoError(t, err)
				second, err := simulate.Run(s, seed)
				require.NoError(t, err)
				require.Equal(t, first, second, "seed %d", seed)
				seen[first.Hash] = true
				n++
			})
			require.Len(t, seen, n, "seeds differ")
		})
	}
}

// Idle CPUs delay nothing. With all but one idle forever, the first pass after an event's barrier
// delivers it. (In TestStream, CPUs are idle only for a while.)
func TestIdleCPUsDelayNothing(t *testing.T) {
	runs(4, func(seed uint64) {
		res, err := simulate.Run(simulate.Setup{CPUs: 4, RingBytes: large, Steps: steps, Skew: skew, Idle: 3}, seed)
		require.NoError(t, err)
		require.NotZero(t, res.Barriers, "seed %d", seed)
		require.Less(t, res.Rest, res.Events/2, "seed %d: most do not wait for the end", seed)
	})
}

// A stream of only stamped ring buffers is exact for sleepable programs, without any grace period.
// If such programs take their time before they reserve, no barrier helps: some of their events are
// late, and no others.
func TestSleepablePrograms(t *testing.T) {
	late := func(s simulate.Source, skew uint64) (sum simulate.Result) {
		runs(8, func(seed uint64) {
			res, err := simulate.Run(simulate.Setup{CPUs: 4, RingBytes: small, Steps: steps, Skew: skew, Start: near32, Sources: []simulate.Source{s}, Only: true}, seed)
			require.NoError(t, err, "seed %d", seed)
			sum.Add(res)
		})
		return sum
	}
	sum := late(stamped, skew)
	require.Zero(t, sum.Late)
	require.Zero(t, sum.Barriers)
	require.Less(t, sum.Rest, sum.Events/2, "most do not wait for the end")
	sum = late(simulate.Source{RingBufs: 1, Sleepers: 2}, skew)
	require.NotZero(t, sum.Late)
	require.NotZero(t, sum.Barriers)
}
