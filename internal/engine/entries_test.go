package engine

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// newFakeMap makes a Reader of a map of two entries, for which a goroutine waits.
func newFakeMap() (m *fakeMap, e *Entries) {
	f := newFake(2, Options{Bell: true})
	m = &fakeMap{fakeKernel: f.kernel}
	f.waker.waiting.Store(true)
	f.kernel.interrupted = func() { m.disarmed++ }
	return m, &f.Entries
}

type fakeMap struct {
	*fakeKernel
	disarmed int // how often the waiting goroutine was made to poll
}

// While paused, entries stay empty even if rings are armed or disarmed. Resume then sets the right
// ones.
func TestEntriesArmedWhilePaused(t *testing.T) {
	m, e := newFakeMap()
	require.True(t, e.Arm(0))
	require.NoError(t, e.Pause())
	require.True(t, e.Arm(1))
	e.Disarm(0)
	require.NoError(t, e.renew(0))
	require.Equal(t, []kernel.Entry{kernel.Empty, kernel.Empty}, m.entries)
	require.NoError(t, e.Resume())
	require.Equal(t, []kernel.Entry{kernel.Plain, kernel.Bell}, m.entries)
	require.Equal(t, 2, m.disarmed, "by Disarm and Renew")
	arms, disarms := e.Counts()
	require.Equal(t, []uint64{2, 1}, []uint64{arms, disarms})
}

// A ring that cannot be disarmed stays armed, and the waiting goroutine polls it all the same.
func TestEntriesRefused(t *testing.T) {
	m, e := newFakeMap()
	require.True(t, e.Arm(0))
	m.refuses = 0
	e.Disarm(0)
	require.True(t, e.Armed(0))
	require.Equal(t, 1, m.disarmed)
	require.Equal(t, errTest, e.Err())

	require.Equal(t, errTest, e.Pause())
	require.Equal(t, []kernel.Entry{kernel.Bell, kernel.Empty}, m.entries, "the others are paused")
	m.refuses = -1
	require.NoError(t, e.Pause(), "tried again")
	require.Equal(t, []kernel.Entry{kernel.Empty, kernel.Empty}, m.entries)
}

func TestEntriesClosed(t *testing.T) {
	m, e := newFakeMap()
	require.True(t, e.Arm(0))
	e.close()
	e.Disarm(0)
	require.True(t, e.Arm(1))
	require.NoError(t, e.Pause())
	require.NoError(t, e.renew(1))
	require.Equal(t, []kernel.Entry{kernel.Bell, kernel.Plain}, m.entries)
}
