//go:build linux && cgo

package kernel_test

import (
	"errors"
	"iter"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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
	e, r := loadAndOpen(t, perfbuf.Options{})
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
	e, r := loadAndOpen(t, perfbuf.Options{})
	l := newLedger(t)
	for range 3 {
		emitOnAll(e, r, 10, 24)
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
	emitOnAll(e, r, 10, 24)
	require.NoError(t, unordered(t, r).ForEach(l.add))
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
	s := unordered(t, r)
	ended := background(t, func() {
		err := s.ForEach(func(ev perfbuf.Event) error {
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
				src = ofRing(t, r.Rings()[0])
			default:
				src = unordered(t, r)
			}
			emitOnAll(e, r, 5, 500)
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

// Close while all CPUs output and the rings are read, from another goroutine and from within.
func TestKernelCloseUnderLoad(t *testing.T) {
	// Each reads until the reader is closed, and returns why it ended.
	type deliver func(kind perfbuf.Kind, payload []byte) error
	event := func(f deliver) func(perfbuf.Event) error {
		return func(ev perfbuf.Event) error { return f(ev.Kind(), ev.Bytes()) }
	}
	read := map[string]func(*testing.T, *perfbuf.Reader, deliver) error{
		"run": func(t *testing.T, r *perfbuf.Reader, f deliver) error {
			return unordered(t, r).Run(t.Context(), event(f))
		},
		"ordered": func(t *testing.T, r *perfbuf.Reader, f deliver) error {
			return ordered(t, r).Run(t.Context(), event(f))
		},
		"records": func(t *testing.T, r *perfbuf.Reader, f deliver) error {
			for rec, err := range unordered(t, r).Records(t.Context()) {
				if err == nil {
					err = f(rec.Kind, rec.Data)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		"rings": func(t *testing.T, r *perfbuf.Reader, f deliver) error {
			var wg sync.WaitGroup
			// All are open before one is read: its events may close the reader.
			streams := ofRings(t, r)
			errs := make([]error, len(streams))
			for i, s := range streams {
				wg.Go(func() {
					for errs[i] == nil {
						errs[i] = s.ForEach(event(f))
					}
				})
			}
			wg.Wait()
			for _, err := range errs {
				if err != os.ErrClosed {
					return err
				}
			}
			return os.ErrClosed
		},
	}
	e := kerneltest.Load(t)
	first := open(t, e, perfbuf.Options{})
	cpus := first.Options().CPUs
	require.NoError(t, first.Close())
	before := atRest(t)
	stop := load(t, e, cpus, 300, 0)

	for name, read := range read {
		for _, from := range []string{"outside", "inside"} {
			t.Run(name+"/"+from, func(t *testing.T) {
				for i := range 8 {
					r := open(t, e, perfbuf.Options{RingBytes: 32 << 10})
					var n atomic.Int64
					reached := make(chan struct{}) // so many events
					var closer <-chan struct{}
					if from == "outside" {
						closer = background(t, func() { <-reached; r.Close() })
					}
					reach := sync.OnceFunc(func() {
						close(reached)
						if from == "inside" {
							r.Close()
						}
					})
					err := read(t, r, func(kind perfbuf.Kind, payload []byte) error {
						if n.Add(1) >= int64(i*100+1) {
							reach()
						}
						if kind != perfbuf.KindSample {
							return nil
						}
						_, err := kerneltest.Check(payload)
						return err
					})
					require.Equal(t, os.ErrClosed, err)
					if closer != nil {
						<-closer
					}
					returned(t, before)
				}
			})
		}
	}
	stop()
	for _, cpu := range cpus {
		e.Emit(cpu, 1, 24)
		require.Equal(t, syscall.ENOENT, e.LastError(cpu))
	}
}

// Wait, Stats, Used and Close at any time, from anywhere.
func TestKernelCloseRaces(t *testing.T) {
	e := kerneltest.Load(t)
	first := open(t, e, perfbuf.Options{})
	require.NoError(t, first.Close())
	before := atRest(t)
	stop := load(t, e, first.Options().CPUs, 100, 0)
	for range 50 {
		r := open(t, e, perfbuf.Options{RingBytes: 4096})
		s := unordered(t, r)
		var wg sync.WaitGroup
		for _, use := range []func() error{func() error { return s.Wait(t.Context()) }, func() error { return s.ForEach(nothing) }} {
			wg.Go(func() { // one of them, the other is refused meanwhile
				for err := error(nil); err == nil || errors.Is(err, perfbuf.ErrBusy); {
					err = use()
				}
			})
		}
		wg.Go(func() {
			for range 20 {
				for _, ring := range r.Rings() {
					if used := ring.Used(); used < 0 || used > ring.Size() {
						t.Errorf("%d bytes used of %d", used, ring.Size())
					}
				}
				r.Stats()
			}
			r.Close()
		})
		wg.Wait()
		returned(t, before)
	}
	stop()
}

// A reader that is closed and still in use frees its rings later, when the map may be another
// reader's. That one's entries stay.
func TestKernelReopenWhileCloseFinishes(t *testing.T) {
	e := kerneltest.Load(t)
	old := open(t, e, perfbuf.Options{})
	s := unordered(t, old)
	for range 20 {
		for _, ring := range old.Rings() {
			e.Emit(ring.CPU(), 2, 24)
		}
		in, reopened := make(chan struct{}), make(chan struct{})
		ended := background(t, func() {
			err := s.ForEach(func(perfbuf.Event) error { close(in); <-reopened; return nil })
			if err != os.ErrClosed {
				t.Error(err)
			}
		})
		<-in
		require.NoError(t, old.Close())
		next := open(t, e, perfbuf.Options{})
		nexts := unordered(t, next)
		arrives := func() {
			for _, ring := range next.Rings() {
				e.Emit(ring.CPU(), 1, 24)
				require.NoError(t, e.LastError(ring.CPU()))
			}
			require.Len(t, collect(t, nexts), len(next.Rings()))
		}
		arrives()
		close(reopened)
		for range 10 { // while the old one goes
			arrives()
		}
		<-ended
		arrives()
		old, s = next, nexts
	}
}

// Right after Close, and with a stream left open.
func TestKernelReopenAfterClose(t *testing.T) {
	e := kerneltest.Load(t)
	for range 20 {
		r := open(t, e, perfbuf.Options{RingBytes: 4096})
		exact(t, r)
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
		s := exact(t, r)
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
