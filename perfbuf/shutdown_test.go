package perfbuf

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a stream that is closed, or closed before the rest is delivered, Shutdown drops nothing: the
// Reader is open.
func TestShutdownOfAClosedStream(t *testing.T) {
	for name, late := range map[string]bool{"before": false, "during": true} {
		t.Run(name, func(t *testing.T) {
			k := newBelled(t, 2)
			k.programs = &fakePrograms{}
			s := k.stream()
			if late {
				k.programs.opened = func() error { return s.Close() }
			} else {
				s.Close()
			}
			k.output(0, 10, 11, 12)
			require.Equal(t, os.ErrClosed, s.Shutdown(t.Context(), never))
			require.Zero(t, k.freed.Load())
			if late {
				k.requireEntries(noEntry, noEntry)
				require.NoError(t, k.Resume())
			}
			k.requireEntries(plainEntry, plainEntry)
			require.Equal(t, []uint64{10, 11, 12}, ids(t, k.unordered()))
			require.NoError(t, k.unordered().Shutdown(t.Context(), never))
			require.Zero(t, k.Stats().Total().Dropped)
		})
	}
}

// While the stream is used, the Reader stays open. An ErrBusy of the function is the function's
// error: it is closed.
func TestShutdownAndErrBusy(t *testing.T) {
	for name, source := range sourceKinds {
		t.Run(name, func(t *testing.T) {
			k := newBelled(t, 2)
			k.programs = &fakePrograms{}
			s := source(k.fake)
			k.output(0, 10, 11, 12)
			if name == "ring" {
				err := s.Shutdown(t.Context(), never)
				require.ErrorContains(t, err, "this is a Stream of one ring: call Reader.Pause")
				require.Zero(t, k.freed.Load())
				k.requireEntries(plainEntry, plainEntry)
				return
			}
			require.NoError(t, s.ForEach(func(Event) error {
				require.ErrorIs(t, s.Shutdown(t.Context(), never), ErrBusy)
				return ErrStop
			}))
			require.Zero(t, k.freed.Load())
			mine := fmt.Errorf("mine: %w", ErrBusy)
			require.Equal(t, mine, s.Shutdown(t.Context(), func(Event) error { return mine }))
			require.Equal(t, int32(1), k.freed.Load())
		})
	}
}
