//go:build linux && cgo

package perfbuf_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A reader that is closed and still in use frees its rings later, when the map may be another
// reader's. That one's entries stay.
func TestKernelReopenWhileCloseFinishes(t *testing.T) {
	e := kerneltest.Load(t)
	old := open(t, e, perfbuf.Options{})
	for range 20 {
		for _, ring := range old.Rings() {
			e.Emit(ring.CPU(), 2, 24)
		}
		in, reopened := make(chan struct{}), make(chan struct{})
		ended := background(t, func() {
			err := perfbuf.StreamOf(t, old).ForEach(func(perfbuf.Event) error { close(in); <-reopened; return nil })
			if err != os.ErrClosed {
				t.Error(err)
			}
		})
		<-in
		require.NoError(t, old.Close())
		next := open(t, e, perfbuf.Options{})
		arrives := func() {
			for _, ring := range next.Rings() {
				e.Emit(ring.CPU(), 1, 24)
				require.NoError(t, e.LastError(ring.CPU()))
			}
			require.Len(t, collect(t, perfbuf.StreamOf(t, next)), len(next.Rings()))
		}
		arrives()
		close(reopened)
		for range 10 { // while the old one goes
			arrives()
		}
		<-ended
		arrives()
		old = next
	}
}

// Right after Close, and with a stream left open.
func TestKernelReopenAfterClose(t *testing.T) {
	e := kerneltest.Load(t)
	for range 20 {
		r := open(t, e, perfbuf.Options{RingBytes: 4096})
		_, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 1, 24)
			require.NoError(t, e.LastError(ring.CPU()))
		}
		shut(t, r)
		require.EqualValues(t, len(r.Rings()), r.Stats().Total().Dropped)
	}
}

// What exact streams have is given back: the barrier's maps, its goroutine and with that its
// thread, also if only the reader is closed, and in the middle of a barrier.
func TestKernelExactLeavesNothing(t *testing.T) {
	e := kerneltest.Load(t)
	before := atRest(t)
	for i := range 20 {
		r := open(t, e, perfbuf.Options{})
		s, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		e.Emit(r.Rings()[0].CPU(), 10, 24)
		switch i % 4 {
		case 0:
			require.NoError(t, r.Close())
		case 1:
			require.NoError(t, s.ForEach(nothing)) // asks for a barrier
			require.NoError(t, r.Close())
		case 2:
			require.NoError(t, s.Wait(t.Context()))
			require.NoError(t, s.Close())
			require.NoError(t, r.Close())
		case 3:
			require.Equal(t, os.ErrClosed, s.Run(t.Context(), func(perfbuf.Event) error { return r.Close() }))
		}
	}
	// A barrier under way when it is closed lets go when it ends.
	for buf := make([]byte, 1<<20); strings.Contains(string(buf[:runtime.Stack(buf, true)]), "ringfold/internal/grace."); {
		runtime.Gosched()
	}
	returned(t, before)
}
