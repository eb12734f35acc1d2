package grace

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNestLevel(t *testing.T) {
	require.Equal(t, -1, nestLevel(0).cpu())
	for cpu := range 5 {
		for variable := range nestLevelVariables {
			require.Equal(t, cpu, levelOf(cpu, variable).cpu())
		}
	}
}

// Wait looks again only at CPUs that it has not yet seen outside of outputs.
func TestNestLevelsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := map[int]int{2: 40, 5: 3, 6: 1} // number of looks
		var from []int
		n := &nestLevels{look: func(first int) (int, error) {
			from = append(from, first)
			for cpu := first; cpu < 8; cpu++ {
				if busy[cpu] > 0 {
					busy[cpu]--
					return cpu, nil
				}
			}
			return -1, nil
		}}
		require.NoError(t, n.Wait())
		require.Len(t, from, 40+3+1+1)
		require.Equal(t, 0, from[0])
		for i, want := range []int{2, 5, 6} {
			require.Equal(t, want, from[[]int{1, 41, 44}[i]])
		}
		require.IsIncreasing(t, []int{from[0], from[40], from[43], from[44]})

		from = nil
		begin := time.Now()
		require.NoError(t, n.Wait())
		require.Equal(t, []int{0}, from)
		require.Zero(t, time.Since(begin))
	})
}

// A grace period waits for a CPU never seen outside of outputs, and its result counts.
func TestNestLevelsFallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, periods := 0, 0
		fail := errors.New("no")
		n := &nestLevels{
			look:     func(int) (int, error) { looks++; return 3, nil },
			fallback: waitFunc(func() error { periods++; return fail }),
		}
		begin := time.Now()
		require.Equal(t, fail, n.Wait())
		require.Equal(t, 1, periods)
		require.Less(t, looks, 100)
		require.Less(t, time.Since(begin), 2*mostLooking)
		fail = nil
		require.NoError(t, n.Wait())
		require.Equal(t, 2, periods)

		n.look = func(int) (int, error) { return -1, errors.ErrUnsupported }
		require.Equal(t, errors.ErrUnsupported, n.Wait(), "after an error nothing is known, and that is no success")
	})
}

// Other CPUs see stores late. The barrier leaves room for that, even if the options do not.
func TestNestLevelsGuard(t *testing.T) {
	for guard, want := range map[uint64]uint64{0: nestLevelsGuard, 1: nestLevelsGuard, 2 * nestLevelsGuard: 2 * nestLevelsGuard} {
		b := New(&nestLevels{look: func(int) (int, error) { return -1, nil }}, func() uint64 { return 1_000_000 }, BarrierOptions{Guard: guard})
		require.Equal(t, want, b.Guard())
		require.NoError(t, b.Round())
		require.EqualValues(t, 1_000_000-want-1, b.Watermark())
	}
}
