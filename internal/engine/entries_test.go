package engine

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

var errTest = errors.New("of the test")

// fakeMap is a map of two entries, one of which may refuse to be set.
type fakeMap struct {
	entries  []kernel.Entry
	refuses  int // a ring, -1: none
	disarmed int // calls
}

func newFakeMap() (*fakeMap, *Entries) {
	m := &fakeMap{entries: []kernel.Entry{kernel.Plain, kernel.Plain}, refuses: -1}
	count := new(atomic.Int32)
	count.Store(2)
	return m, NewEntries(3, count, func(ring int, to kernel.Entry) error {
		if ring == m.refuses {
			return errTest
		}
		m.entries[ring] = to
		return nil
	}, func() { m.disarmed++ })
}

// While paused, entries stay empty even if rings are armed or disarmed. Resume then sets the right
// ones.
func TestEntriesArmedWhilePaused(t *testing.T) {
	m, e := newFakeMap()
	require.True(t, e.Arm(0))
	require.NoError(t, e.Pause())
	require.True(t, e.Arm(1))
	e.Disarm(0)
	require.NoError(t, e.Renew(0))
	require.Equal(t, []kernel.Entry{kernel.Empty, kernel.Empty}, m.entries)
	require.NoError(t, e.Resume())
	require.Equal(t, []kernel.Entry{kernel.Plain, kernel.Bell}, m.entries)
	require.Equal(t, 2, m.disarmed, "by Disarm and Renew")
	arms, disarms := e.Counts()
	require.Equal(t, []uint64{2, 1}, []uint64{arms, disarms})
}

// A ring that cannot be disarmed stays armed, and disarmed is called all the same.
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
	e.Close()
	e.Disarm(0)
	require.True(t, e.Arm(1))
	require.NoError(t, e.Pause())
	require.NoError(t, e.Renew(1))
	require.Equal(t, []kernel.Entry{kernel.Bell, kernel.Plain}, m.entries)
}
