package perfbuf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// markerOf calls f with the next marker that src delivers.
func markerOf(t *testing.T, src Source, f func(marker Event)) {
	t.Helper()
	n := 0
	require.NoError(t, forEach(src, func(ev Event) error {
		n++
		require.Equal(t, KindFlushed, ev.Kind())
		f(ev)
		return nil
	}))
	require.Equal(t, 1, n)
}

// A marker holds no ring, so a stream may begin while it is with the user. The stream's marker is another one,
// and so is that of the stream after it.
func TestMarkerIsNotOverwritten(t *testing.T) {
	k := newFake(t, 2, Options{})
	require.NoError(t, k.Flush())
	markerOf(t, k, func(mine Event) {
		before := mine.Record()
		for range 2 {
			s := k.stream()
			now := k.clock.Add(1000)
			require.NoError(t, k.Flush())
			markerOf(t, s, func(streams Event) {
				require.Equal(t, now, streams.Time())
				require.Equal(t, before, mine.Record())
			})
			require.NoError(t, s.Close())
			require.Equal(t, before, mine.Record())
		}
	})
}

// The same from another goroutine, for the race detector.
func TestMarkersOfTwoGoroutines(t *testing.T) {
	k := newFake(t, 1, Options{})
	require.NoError(t, k.Flush())
	markerOf(t, k, func(mine Event) {
		done := make(chan error)
		s := k.stream()
		go func() {
			err := k.Flush()
			if err == nil {
				err = s.ForEach(func(Event) error { return nil })
			}
			done <- err
		}()
		for range 1000 {
			require.Equal(t, KindFlushed, mine.Kind())
		}
		require.NoError(t, <-done)
	})
}
