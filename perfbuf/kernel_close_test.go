//go:build linux && cgo

package perfbuf_test

import (
	"iter"
	"os"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func nothing(perfbuf.Event) error { return nil }

// requireClosed requires that every method of w returns os.ErrClosed.
func requireClosed(t *testing.T, w *perfbuf.Stream) {
	t.Helper()
	_, err := perfbuf.Fold(w, 0, func(int, perfbuf.Event) (int, error) { return 0, nil })
	require.Equal(t, os.ErrClosed, err)
	_, err = perfbuf.Fold(w, 0, func(int, perfbuf.Event) (int, error) { return 0, nil })
	require.Equal(t, os.ErrClosed, err)
	require.Equal(t, os.ErrClosed, w.ForEach(nothing))
	require.Equal(t, os.ErrClosed, w.Wait(t.Context()))
	require.Equal(t, os.ErrClosed, w.Run(t.Context(), nothing))
	requireEnds(t, w.Events(t.Context()))
	requireEnds(t, w.Records(t.Context()))
}

// requireEnds requires that an iterator delivers os.ErrClosed and nothing else.
func requireEnds[T any](t *testing.T, seq iter.Seq2[T, error]) {
	t.Helper()
	n := 0
	for _, err := range seq {
		require.Equal(t, os.ErrClosed, err)
		n++
	}
	require.Equal(t, 1, n)
}

func TestKernelUseAfterClose(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	ring := r.Rings()[0]
	s := ordered(t, r)
	e.Emit(ring.CPU(), 10, 24)
	require.NoError(t, s.ForEach(func(perfbuf.Event) error { return perfbuf.ErrStop }))
	require.Equal(t, 9*recordSize(24), ring.Used())
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())

	_, err := ring.Stream()
	require.Equal(t, os.ErrClosed, err)
	_, err = r.Stream(perfbuf.StreamOptions{})
	require.Equal(t, os.ErrClosed, err)
	require.Len(t, r.Rings(), len(r.Options().CPUs))

	requireClosed(t, s)
	require.Equal(t, os.ErrClosed, s.ForEachPending(nothing))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())

	require.Zero(t, ring.Used())
	require.Equal(t, r.Options().RingBytes, ring.Size())

	<-r.Done()
	stats := r.Stats().Total()
	require.EqualValues(t, 1, stats.Samples)
	require.Zero(t, stats.Used)
}

// Closing a stream ends the stream only; a new one, or the reader, goes on after the events it had
// seen.
func TestKernelUseAfterOrderedClose(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	l := newLedger(t)
	for range 3 {
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 10, 24)
		}
		s := ordered(t, r)
		_, err := r.Stream(perfbuf.StreamOptions{})
		require.ErrorIs(t, err, perfbuf.ErrBusy)
		_, err = r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
		require.ErrorIs(t, err, perfbuf.ErrBusy)
		_, err = r.Rings()[0].Stream()
		require.ErrorIs(t, err, perfbuf.ErrBusy)
		require.NoError(t, s.ForEach(l.add))
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		requireClosed(t, s)
		require.Equal(t, os.ErrClosed, s.ForEachPending(nothing))
	}
	for _, ring := range r.Rings() {
		e.Emit(ring.CPU(), 10, 24)
	}
	require.NoError(t, perfbuf.StreamOf(t, r).ForEach(l.add))
	l.balance(e, r)
}

// What Close and a failing Open have to put back: descriptors, mappings, and the map's entries.
func TestKernelCloseLeavesNothing(t *testing.T) {
	e := kerneltest.Load(t)
	before := atRest(t)
	for _, opts := range []perfbuf.Options{{}, {NoTime: true}, {RingBytes: 1 << 20}, {Wakeup: perfbuf.Wakeup{Events: 10}}} {
		r := open(t, e, opts)
		require.Greater(t, len(belongings(t)), len(before)+2*len(r.Rings()))
		if !opts.NoTime {
			ordered(t, r) // left open
		}
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 100, 56)
			require.NoError(t, e.LastError(ring.CPU()))
		}
		require.NoError(t, r.Close())
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 100, 56)
			require.Equal(t, syscall.ENOENT, e.LastError(ring.CPU()))
		}
		returned(t, before)
	}
}

// A pass in another goroutine has rings until it ends, and the last to leave frees them.
func TestKernelCloseDuringPass(t *testing.T) {
	e := kerneltest.Load(t)
	before := atRest(t)
	r := open(t, e, perfbuf.Options{})
	cpu := r.Rings()[0].CPU()
	e.Emit(cpu, 3, 56)
	n, in, closed := 0, make(chan struct{}), make(chan struct{})
	ended := background(t, func() {
		err := perfbuf.StreamOf(t, r).ForEach(func(ev perfbuf.Event) error {
			n++
			close(in)
			<-closed
			_, err := kerneltest.Check(ev.Bytes())
			require.NoError(t, err)
			return err
		})
		require.Equal(t, os.ErrClosed, err)
	})
	<-in
	require.NoError(t, r.Close())
	require.NotEqual(t, before, belongings(t), "the event is still in use")
	_, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Unordered()})
	require.Equal(t, os.ErrClosed, err)
	close(closed)
	<-ended
	require.Equal(t, 1, n)
	returned(t, before)
}

// Close from within the function that has the event, which stays readable until that returns.
func TestKernelCloseInside(t *testing.T) {
	for _, name := range []string{"reader", "ordered", "ring"} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			before := atRest(t)
			r := open(t, e, perfbuf.Options{RingBytes: 4096})
			var src *perfbuf.Stream
			switch name {
			case "ordered":
				src = ordered(t, r)
			case "ring":
				src = perfbuf.StreamOf(t, r.Rings()[0])
			default:
				src = perfbuf.StreamOf(t, r)
			}
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), 5, 500)
			}
			n := 0
			err := src.ForEach(func(ev perfbuf.Event) error {
				if n++; n == 3 {
					require.NoError(t, r.Close())
					require.Equal(t, os.ErrClosed, src.ForEach(nothing))
				}
				_, err := kerneltest.Check(ev.Bytes())
				return err
			})
			require.Equal(t, os.ErrClosed, err)
			require.Equal(t, 3, n)
			returned(t, before)
		})
	}
}
