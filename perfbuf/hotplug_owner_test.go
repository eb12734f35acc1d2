package perfbuf

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// A new ring is the stream's before its next round too: read on its own, its events would be
// missing from the stream.
func TestNewRingIsTheStreams(t *testing.T) {
	k := newPluggable(t, 2)
	s, barrier := k.stepped(1<<40, StreamOptions{})
	k.comes(firstCPU - 1)
	k.output(2, 10)
	k.output(0, 20)
	requireHeld(t, k.all()[2])
	require.NoError(t, barrier.Round())
	require.Equal(t, []uint64{10, 20}, ids(t, s))

	k.comes(firstCPU + 2)
	k.output(3, 30)
	require.NoError(t, s.Close())
	require.Equal(t, []uint64{30}, ids(t, StreamOf(t, k.all()[3])), "free again, though the stream had no round with it")
	k.output(3, 40)
	require.Equal(t, []uint64{40}, ids(t, k.stream()))
}

// A stream that cannot be opened leaves no ring behind that came meanwhile.
func TestNewRingOfAStreamThatFails(t *testing.T) {
	k := newPluggable(t, 2)
	k.programs = &fakePrograms{opened: func() error {
		k.programs.opened = nil
		k.comes(firstCPU - 1)
		k.output(2, 10)
		requireHeld(t, k.all()[2])
		return errTest
	}}
	_, err := k.Stream(StreamOptions{})
	require.ErrorIs(t, err, errTest)
	require.Equal(t, []uint64{10}, ids(t, k.unordered()))
}

// CPUs come online while streams are opened and closed: each stream has all rings, and leaves none
// claimed.
func TestNewRingsWhileStreamsComeAndGo(t *testing.T) {
	for range 300 {
		k := newPluggable(t, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.comes(firstCPU + 1)
			k.comes(firstCPU - 1)
		}()
		for last := false; !last; {
			last = len(k.all()) == 3
			s, err := k.Stream(StreamOptions{Order: Slack(0)})
			require.NoError(t, err)
			for _, ring := range k.all() {
				requireHeld(t, ring)
			}
			require.NoError(t, s.Close())
		}
		<-done
		for i := range k.all() {
			k.output(i, 1)
		}
		require.Len(t, ids(t, k.unordered()), 3)
	}
}

// A ring is known before its entry is in the map: a barrier that looks at all rings afterwards
// covers even its first event.
func TestFirstEventOfANewRingIsNotLate(t *testing.T) {
	k := newPluggable(t, 1)
	s, barrier := k.stepped(1<<40, StreamOptions{})
	// At the latest, the entry is there when this returns
	k.belled.set = func(ring int, _ kernel.Entry) error {
		k.belled.set = nil
		k.output(ring, 10)
		k.output(0, 20)
		require.NoError(t, barrier.Round())
		require.Equal(t, []uint64{10, 20}, ids(t, s))
		return nil
	}
	k.comes(firstCPU + 1)
	require.Nil(t, k.belled.set)
	require.Zero(t, k.Stats().Late)
}
