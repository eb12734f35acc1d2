//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Reading allocates nothing: not per event, and most ways not per pass.
func TestKernelAllocations(t *testing.T) {
	const (
		size   = 56
		passes = 50
		batch  = 30 // events of a pass
	)
	type reader = func(r *perfbuf.Reader, s *perfbuf.Stream, f func(perfbuf.Event) error) error
	iterate := func(events func(func(perfbuf.Event, error) bool), f func(perfbuf.Event) error) error {
		for ev, err := range events {
			if err != nil {
				return err
			}
			if f(ev) != nil {
				break
			}
		}
		return nil
	}
	background := context.Background()
	for name, c := range map[string]struct {
		ordered bool
		perPass float64
		read    reader
	}{
		"Fold(Reader)": {read: func(r *perfbuf.Reader, _ *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return forEach(perfbuf.StreamOf(t, r), f)
		}},
		"unordered ForEach": {read: func(r *perfbuf.Reader, _ *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return perfbuf.StreamOf(t, r).ForEach(f)
		}},
		"ForEach of a ring": {read: func(r *perfbuf.Reader, _ *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return perfbuf.StreamOf(t, r.Rings()[0]).ForEach(f)
		}, perPass: 1},
		"Stream.ForEach": {ordered: true, read: func(_ *perfbuf.Reader, s *perfbuf.Stream, f func(perfbuf.Event) error) error { return s.ForEach(f) }},
		"Fold(Stream)":   {ordered: true, read: func(_ *perfbuf.Reader, s *perfbuf.Stream, f func(perfbuf.Event) error) error { return forEach(s, f) }},
		"Stream.ForEachPending": {ordered: true, read: func(_ *perfbuf.Reader, s *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return s.ForEachPending(f)
		}},
		"unordered Wait": {read: func(r *perfbuf.Reader, _ *perfbuf.Stream, f func(perfbuf.Event) error) error {
			if err := perfbuf.StreamOf(t, r).Wait(background); err != nil {
				return err
			}
			return perfbuf.StreamOf(t, r).ForEach(f)
		}},
		"Stream.Wait": {ordered: true, read: func(_ *perfbuf.Reader, s *perfbuf.Stream, f func(perfbuf.Event) error) error {
			if err := s.Wait(background); err != nil {
				return err
			}
			return s.ForEach(f)
		}},
		"Events of a ring": {perPass: 10, read: func(r *perfbuf.Reader, _ *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return iterate(perfbuf.StreamOf(t, r.Rings()[0]).Events(background), f)
		}},
		"unordered Events": {perPass: 10, read: func(r *perfbuf.Reader, _ *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return iterate(perfbuf.StreamOf(t, r).Events(background), f)
		}},
		"unordered Run": {perPass: 10, read: func(r *perfbuf.Reader, _ *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return perfbuf.StreamOf(t, r).Run(background, f)
		}},
		"Stream.Events": {ordered: true, perPass: 10, read: func(_ *perfbuf.Reader, s *perfbuf.Stream, f func(perfbuf.Event) error) error {
			return iterate(s.Events(background), f)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 256 << 10})
			var s *perfbuf.Stream
			if c.ordered {
				s = ordered(t, r)
			}
			// AllocsPerRun makes one call more, to warm up. All CPUs have enough for all calls, as
			// only one is read here and there.
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), (passes+1)*batch, size)
			}
			n, sum := 0, uint64(0)
			one := func(ev perfbuf.Event) error {
				sum += ev.Time() + uint64(len(ev.Bytes())) + uint64(ev.CPU()) + ev.Lost()
				if n++; n%batch == 0 {
					return perfbuf.ErrStop
				}
				return nil
			}
			allocs := testing.AllocsPerRun(passes, func() {
				if err := c.read(r, s, one); err != nil {
					t.Fatal(err)
				}
			})
			require.Equal(t, (passes+1)*batch, n)
			require.NotZero(t, sum)
			if !checked {
				require.LessOrEqual(t, allocs, c.perPass, "per pass")
			}
		})
	}
}

// Nor do records that wrap around the ring's edge, once there has been one.
func TestKernelAllocationsOfWraps(t *testing.T) {
	eachSource(t, perfbuf.Options{RingBytes: 8 << 10}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
		wraps, sum := 0, 0
		read := func() {
			err := src.ForEach(func(ev perfbuf.Event) error {
				if ev.Copied(r) {
					wraps++
				}
				sum += len(ev.Bytes())
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		allocs := uint64(0)
		for i := range 300 {
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), 2, 3000)
			}
			runtime.ReadMemStats(&before)
			read()
			runtime.ReadMemStats(&after)
			if i == 20 { // everybody has grown what there is to grow
				allocs, wraps = 0, 0
			}
			allocs += after.Mallocs - before.Mallocs
		}
		require.Greater(t, wraps, 100)
		require.NotZero(t, sum)
		if !checked {
			// The runtime itself may have some
			require.Less(t, allocs, uint64(wraps/4), "of %d wraps", wraps)
		}
	})
}
