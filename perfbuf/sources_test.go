package perfbuf

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// twoReaders are two readers of one simulated kernel's clock.
func twoReaders(t *testing.T) (a, b *fake) {
	a, b = newFake(t, 2, Options{}), newFake(t, 1, Options{RingBytes: 2 * fakeRingSize})
	b.hooks.clock = a.clock.Load
	return a, b
}

// Events of several readers come in one order, and say whose they are. Each reader counts its own.
func TestMergeReaders(t *testing.T) {
	a, b := twoReaders(t)
	a.output(0, 10, 40)
	a.output(1, 20)
	b.output(0, 15, 30, 50)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader)
	require.NoError(t, err)
	var ids []uint64
	var from []*Reader
	require.NoError(t, s.ForEach(func(ev Event) error {
		ids, from = append(ids, id(t, ev)), append(from, ev.Source())
		return nil
	}))
	require.Equal(t, []uint64{10, 15, 20, 30, 40, 50}, ids)
	require.Equal(t, []*Reader{a.Reader, b.Reader, a.Reader, b.Reader, a.Reader, b.Reader}, from)
	require.EqualValues(t, 3, a.Stats().Total().Samples)
	require.EqualValues(t, 3, b.Stats().Total().Samples)
	requireHeld(t, a)
	require.NoError(t, s.Close())
	requireFree(t, a.Reader)
	requireFree(t, b.Reader)
}

// A reader that is taken out is free at once, and one that comes in later is read from then on.
func TestAddAndRemove(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader)
	require.NoError(t, err)
	b.output(0, 5)
	require.NoError(t, s.Add(b.Reader))
	a.output(0, 10)
	require.Equal(t, []uint64{5, 10}, ids(t, s))
	a.output(0, 20)
	require.NoError(t, s.Remove(a.Reader))
	require.ErrorContains(t, s.Remove(a.Reader), "not a source")
	require.Equal(t, errNilReader, s.Remove(nil))
	require.Equal(t, errNilReader, s.Add(nil))
	_, err = Merge(StreamOptions{}, b.Reader, nil)
	require.Equal(t, errNilReader, err)
	require.Equal(t, []uint64{20}, ids(t, a.unordered()), "it had not been seen")
	b.output(0, 30)
	require.Equal(t, []uint64{30}, ids(t, s))
	require.NoError(t, s.Remove(b.Reader))
	require.Empty(t, ids(t, s), "without sources nothing comes")
	require.NoError(t, s.Close())
	require.Equal(t, os.ErrClosed, s.Add(a.Reader))
	require.NoError(t, a.unordered().ForEach(never), "it is not claimed")
}

// What a wait is for changes with the sources, while it waits.
func TestWaitForSeveralReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := twoReaders(t)
		s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader)
		require.NoError(t, err)
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		blocked(t, done)
		require.NoError(t, s.Add(b.Reader))
		blocked(t, done)
		b.output(0, 1)
		b.poll.wake()
		require.NoError(t, <-done)
		require.Equal(t, []uint64{1}, ids(t, s))

		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		a.output(0, 2)
		a.poll.wake()
		require.NoError(t, <-done)
		require.Equal(t, []uint64{2}, ids(t, s))

		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		require.NoError(t, s.Remove(a.Reader))
		blocked(t, done)
		wakes := b.Stats().Wakes
		a.poll.wake()
		blocked(t, done)
		require.Equal(t, wakes, b.Stats().Wakes, "it is no source")
		require.NoError(t, s.Remove(b.Reader))
		blocked(t, done)
		require.NoError(t, s.Add(b.Reader))
		b.output(0, 3)
		b.poll.wake()
		require.NoError(t, <-done)

		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		require.NoError(t, <-done, "what is held")
		require.Equal(t, []uint64{3}, ids(t, s))
		done = waitInBackground(func() error { return s.Wait(t.Context()) })
		require.NoError(t, s.Add(a.Reader))
		blocked(t, done)
		require.NoError(t, a.Close())
		require.Equal(t, os.ErrClosed, <-done, "a source's end is the stream's")
		require.NoError(t, s.Close())
		requireFree(t, b.Reader)
		<-a.Done()
	})
}

// One marker answers all flushes, of all sources together.
func TestFlushOfSeveralReaders(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(time.Millisecond)}, a.Reader, b.Reader)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, s.Flush())
	}
	a.clock.Add(2e6)
	recs := copies(t, s)
	require.Len(t, recs, 1)
	require.Equal(t, KindFlushed, recs[0].Kind)
	require.Empty(t, copies(t, s))
}

func TestMergeRefuses(t *testing.T) {
	a, b := twoReaders(t)
	c := newFake(t, 1, Options{NoTime: true})
	for want, readers := range map[string][]*Reader{
		"no readers":                 nil,
		"is passed twice":            {a.Reader, b.Reader, a.Reader},
		"opened with Options.NoTime": {a.Reader, c.Reader},
	} {
		_, err := Merge(StreamOptions{Order: Slack(0)}, readers...)
		require.ErrorContains(t, err, want)
		requireFree(t, a.Reader)
		requireFree(t, b.Reader)
	}
	s := a.slack(1)
	_, err := Merge(StreamOptions{Order: Slack(0)}, b.Reader, a.Reader)
	require.ErrorIs(t, err, ErrBusy)
	requireFree(t, b.Reader)
	require.NoError(t, s.Close())
	require.NoError(t, b.Close())
	_, err = Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader)
	require.Equal(t, os.ErrClosed, err)
	requireFree(t, a.Reader)
}

// Readers may come, go and be closed in the middle of a pass. It is the next that sees them.
func TestSourcesChangeWithinAPass(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader)
	require.NoError(t, err)
	a.output(0, 1, 2)
	b.output(0, 3)
	n := 0
	require.NoError(t, s.ForEach(func(Event) error {
		if n++; n == 1 {
			require.NoError(t, s.Add(b.Reader))
			requireHeld(t, b)
			require.Error(t, s.Add(b.Reader))
		}
		return nil
	}))
	require.Equal(t, 2, n)
	require.Equal(t, []uint64{3}, ids(t, s))
	a.output(0, 4, 5)
	n = 0
	require.NoError(t, s.ForEach(func(Event) error {
		if n++; n == 1 {
			require.NoError(t, s.Remove(a.Reader))
			requireHeld(t, a)
		}
		return nil
	}))
	require.Equal(t, 2, n)
	requireFree(t, a.Reader)
	b.output(0, 6)
	require.Equal(t, []uint64{6}, ids(t, s))

	b.output(0, 7)
	require.Equal(t, os.ErrClosed, s.ForEach(func(Event) error {
		require.NoError(t, s.Add(a.Reader))
		require.NoError(t, a.Close()) // before the stream has taken it in
		require.Equal(t, int32(1), a.freed.Load())
		a.hooks.memory = nil
		return nil
	}))
	require.Equal(t, os.ErrClosed, s.ForEach(never))
	require.NoError(t, s.Close())
	requireFree(t, b.Reader)
}

// A source that cannot be paused is let pass, as a BPF ring buffer; one of which that fails is not,
// and all stay open.
func TestShutdownNeedsPause(t *testing.T) {
	a, b := twoReaders(t)
	s, err := Merge(StreamOptions{Order: Slack(0)}, a.Reader, b.Reader)
	require.NoError(t, err)
	a.hooks.set = func(int, kernel.Entry) error { return errors.ErrUnsupported }
	b.hooks.set = func(int, kernel.Entry) error { return errTest }
	require.ErrorIs(t, s.Shutdown(t.Context(), never), errTest)
	require.NoError(t, s.ForEach(never), "it is open")
}
