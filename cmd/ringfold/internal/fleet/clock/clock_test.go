package clock

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The clocks of this machine: several measurements agree within what they say their errors are, and
// with Go's clock.
func TestMeasure(t *testing.T) {
	for range 20 {
		a := Measure()
		mono, wall := int64(perfbuf.Now()), time.Now().UnixNano()
		b := Measure()
		require.LessOrEqual(t, abs(a.Offset-b.Offset), int64(a.Error+b.Error))
		require.Less(t, abs(mono+a.Offset-wall), int64(time.Minute)) // the two readings are not bracketed: a sanity check
		require.Positive(t, a.Error)
		require.LessOrEqual(t, a.Error, Unknown+uint64(time.Minute))
	}
}

func abs(n int64) int64 { return max(n, -n) }

// However the reader is interrupted, the offset is within the error.
func TestInterrupted(t *testing.T) {
	const offset = 1_700_000_000_000_000_000
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var clock int64 = 5e12
		step := func() int64 {
			clock += 1 + r.Int64N(100)
			if r.IntN(3) == 0 {
				clock += r.Int64N(1e7)
			}
			return clock
		}
		got := measure(step, func() int64 { return step() + offset }, func() uint64 { return 0 })
		require.LessOrEqual(t, abs(got.Offset-offset), int64(got.Error))
		require.Less(t, got.Error, uint64(1e7), "the tightest of them")
	}
}

func TestMaxError(t *testing.T) {
	require.Equal(t, uint64(1500_000), known(unix.TIME_OK, 0, 1500, nil))
	require.Equal(t, Unknown, known(unix.TIME_ERROR, 0, 1500, nil))
	require.Equal(t, Unknown, known(unix.TIME_OK, unix.STA_UNSYNC, 1500, nil))
	require.Equal(t, Unknown, known(0, 0, 0, errors.New("forbidden")))
	got := measure(func() int64 { return 5 }, func() int64 { return 7 }, func() uint64 { return 100 })
	require.Equal(t, Reading{Offset: 2, Error: 100}, got)
}
