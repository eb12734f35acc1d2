package perfbuf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// markerOf calls f with the next marker that src delivers.
func markerOf(t *testing.T, src *Stream, f func(marker Event)) {
	t.Helper()
	n := 0
	require.NoError(t, src.ForEach(func(ev Event) error {
		n++
		require.Equal(t, KindFlushed, ev.Kind())
		f(ev)
		return nil
	}))
	require.Equal(t, 1, n)
}

// A marker is the stream's: it stays intact while the user has it, though other streams deliver
// markers meanwhile.
func TestMarkerIsNotOverwritten(t *testing.T) {
	k := newFake(t, 2, Options{})
	first, second := StreamOf(t, k.all()[0]), StreamOf(t, k.all()[1])
	require.NoError(t, first.Flush())
	markerOf(t, first, func(mine Event) {
		before := mine.Record()
		for range 2 {
			now := k.clock.Add(1000)
			require.NoError(t, second.Flush())
			require.NoError(t, first.Flush())
			markerOf(t, second, func(other Event) {
				require.Equal(t, now, other.Time())
				require.Equal(t, before, mine.Record())
			})
			require.Equal(t, before, mine.Record())
		}
	})
}
