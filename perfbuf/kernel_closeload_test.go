//go:build linux && cgo

package perfbuf_test

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Close while all CPUs output and the rings are read, from another goroutine and from within.
func TestKernelCloseUnderLoad(t *testing.T) {
	// Each reads until the reader is closed, and returns why it ended.
	type deliver func(kind perfbuf.Kind, payload []byte) error
	event := func(f deliver) func(perfbuf.Event) error {
		return func(ev perfbuf.Event) error { return f(ev.Kind(), ev.Bytes()) }
	}
	read := map[string]func(*testing.T, *perfbuf.Reader, deliver) error{
		"run": func(t *testing.T, r *perfbuf.Reader, f deliver) error {
			return perfbuf.StreamOf(t, r).Run(t.Context(), event(f))
		},
		"ordered": func(t *testing.T, r *perfbuf.Reader, f deliver) error {
			return ordered(t, r).Run(t.Context(), event(f))
		},
		"records": func(t *testing.T, r *perfbuf.Reader, f deliver) error {
			for rec, err := range perfbuf.StreamOf(t, r).Records(t.Context()) {
				if err == nil {
					err = f(rec.Kind, rec.Data)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		"rings": func(_ *testing.T, r *perfbuf.Reader, f deliver) error {
			var wg sync.WaitGroup
			errs := make([]error, len(r.Rings()))
			for i, ring := range r.Rings() {
				wg.Go(func() {
					for errs[i] == nil {
						errs[i] = perfbuf.StreamOf(t, ring).ForEach(event(f))
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
		s := perfbuf.StreamOf(t, r)
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
