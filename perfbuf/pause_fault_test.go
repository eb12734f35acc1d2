package perfbuf

import (
	"os"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// refuses lets changes of one ring's entry fail until the function that it returns is called.
func (k *belled) refuses(ring int) (relent func()) {
	k.set = func(i int, _ kernel.Entry) error {
		if i == ring {
			return syscall.EPERM
		}
		return nil
	}
	return func() { k.set = nil }
}

// While an entry is still to be emptied, Pause is not nil, and tries again.
func TestPauseAfterAPauseThatFailed(t *testing.T) {
	k := newBelled(t, 3)
	relent := k.refuses(1)
	for range 3 {
		require.ErrorIs(t, k.Pause(), syscall.EPERM)
		k.requireEntries(noEntry, plainEntry, noEntry)
		require.ErrorIs(t, k.Stats().Doorbell.Err, syscall.EPERM)
	}
	relent()
	require.NoError(t, k.Pause())
	k.requireEntries(noEntry, noEntry, noEntry)
	require.NoError(t, k.Stats().Doorbell.Err)

	_, sets := k.entriesNow()
	require.NoError(t, k.Pause())
	_, after := k.entriesNow()
	require.Equal(t, sets, after, "there is nothing left to do")
	require.NoError(t, k.Resume())
	k.requireEntries(plainEntry, plainEntry, plainEntry)
}

// A Resume that fails has put some rings back: the next Pause takes them out.
func TestPauseAfterAResumeThatFailed(t *testing.T) {
	k := newBelled(t, 3)
	require.NoError(t, k.Pause())
	relent := k.refuses(1)
	for range 2 {
		require.ErrorIs(t, k.Resume(), syscall.EPERM)
		k.requireEntries(plainEntry, noEntry, plainEntry)
	}
	relent()
	require.NoError(t, k.Pause())
	k.requireEntries(noEntry, noEntry, noEntry)
	require.NoError(t, k.Resume())
	k.requireEntries(plainEntry, plainEntry, plainEntry)
	require.NoError(t, k.Stats().Doorbell.Err)
}

// What could be resumed is: a CPU that comes back meanwhile gets its ring back.
func TestResumeThatFailedInPart(t *testing.T) {
	k := newPluggable(t, 2)
	require.NoError(t, k.Pause())
	k.refuses(1)
	require.ErrorIs(t, k.Resume(), syscall.EPERM)
	k.dead[0] = true
	_, before := k.entriesNow()
	require.NoError(t, k.Replug())
	_, after := k.entriesNow()
	require.Equal(t, before+1, after)
	k.requireEntries(plainEntry, noEntry)
}

// Shutdown promises that outputs have ended when it calls f.
func TestShutdownAfterAPauseThatFailed(t *testing.T) {
	k := newBelled(t, 2)
	k.programs = &fakePrograms{}
	relent := k.refuses(0)
	require.ErrorIs(t, k.Pause(), syscall.EPERM)
	require.NoError(t, k.emit(0, 1), "it still lands")
	require.ErrorIs(t, k.unordered().Shutdown(t.Context(), never), syscall.EPERM)
	require.Equal(t, []uint64{1}, ids(t, k.unordered()), "the reader is still open")

	require.NoError(t, k.emit(0, 2))
	relent()
	require.NoError(t, k.unordered().Shutdown(t.Context(), func(Event) error {
		require.Equal(t, syscall.ENOENT, k.emit(0, 3))
		return nil
	}))
	require.EqualValues(t, 2, k.Stats().Rings[0].Samples)
	require.Equal(t, os.ErrClosed, k.Pause())
}

// A Pause that succeeds says nothing of rings that could not be armed.
func TestPauseKeepsTheErrorOfArming(t *testing.T) {
	k := newBelled(t, 1)
	k.in.Entries.Fail(errTest)
	relent := k.refuses(0)
	require.ErrorIs(t, k.Pause(), syscall.EPERM)
	relent()
	require.NoError(t, k.Pause())
	require.ErrorIs(t, k.Stats().Doorbell.Err, errTest)
}

// Stats say which entries Close could not take out of the map.
func TestCloseSaysWhatStaysInTheMap(t *testing.T) {
	for _, want := range []error{errTest, nil} {
		k := newBelled(t, 2)
		k.hooks.unhook = func() error { return want }
		require.NoError(t, k.Stats().CloseErr)
		require.NoError(t, k.Close())
		require.Equal(t, want, k.Stats().CloseErr)
	}
}
