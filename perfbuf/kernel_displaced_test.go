//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// displacements are ways in which a map's entries become another reader's. They return what undoes
// it.
var displacements = map[string]func(t *testing.T, e *kerneltest.Emitter) (undo func()){
	"another reader": func(t *testing.T, e *kerneltest.Emitter) func() {
		r := open(t, e, perfbuf.Options{})
		return func() { r.Close() }
	},
	"libbpf's perf_buffer": func(t *testing.T, e *kerneltest.Emitter) func() {
		pb, err := libbpf.New(e.MapFD(), 4)
		require.NoError(t, err)
		return pb.Free
	},
	"a reader that is closed again": func(t *testing.T, e *kerneltest.Emitter) func() {
		require.NoError(t, open(t, e, perfbuf.Options{}).Close())
		return func() {}
	},
	"entries deleted": func(t *testing.T, e *kerneltest.Emitter) func() {
		for _, cpu := range onlineCPUs(t) {
			require.NoError(t, libbpf.MapDelete(e.MapFD(), uint32(cpu)))
		}
		return func() {}
	},
}

// Every consumer, under every wakeup policy, gets all events of the rings and then the error,
// though no event wakes it. Other readers' entries stay in the map.
func TestKernelDisplaced(t *testing.T) {
	requireRuns(t)
	policies := map[string]perfbuf.Wakeup{"doorbell": {}, "each event": {Events: 1}, "many bytes": {Bytes: 1 << 15}, "polls": {PollInterval: 1e8, Bytes: 1 << 15}}
	for name, displace := range displacements {
		for policy, wakeup := range policies {
			if name != "another reader" && policy != "doorbell" {
				continue
			}
			for mode, read := range readings {
				t.Run(fmt.Sprintf("%s, %s, %s", name, policy, mode), func(t *testing.T) {
					t.Parallel()
					e := kerneltest.Load(t)
					r := open(t, e, perfbuf.Options{Wakeup: wakeup})
					cpus := r.Options().CPUs
					s := read(t, r)
					opened := r.Stats().Displaced
					require.NoError(t, opened.Err)
					require.Zero(t, opened.Entries)
					require.NotZero(t, opened.OwnedUntil)
					for _, cpu := range cpus {
						e.Emit(cpu, 3, 40)
					}
					defer displace(t, e)()
					after := perfbuf.Now()
					got := 0
					err := s.Run(t.Context(), func(perfbuf.Event) error { got++; return nil })
					require.ErrorIs(t, err, perfbuf.ErrDisplaced)
					require.ErrorContains(t, err, fmt.Sprintf("%d CPUs", len(cpus)))
					require.Equal(t, 3*len(cpus), got)
					d := r.Stats().Displaced
					require.Equal(t, len(cpus), d.Entries)
					require.LessOrEqual(t, d.OwnedUntil, after)
					require.GreaterOrEqual(t, d.OwnedUntil, opened.OwnedUntil)
				})
			}
		}
	}
}

// looked waits until all entries have been looked at once more, and were the reader's.
func looked(t *testing.T, r *perfbuf.Reader) {
	t.Helper()
	at := perfbuf.Now()
	eventually(t, "another look", func() bool { return r.Stats().Displaced.OwnedUntil > at })
	require.Zero(t, r.Stats().Displaced.Entries)
}

// A reader that has lost some CPUs goes on with the others, and has all again when it takes them
// back.
func TestKernelDisplacedInPart(t *testing.T) {
	requireRuns(t)
	cpus := onlineCPUs(t)
	if len(cpus) == 1 {
		t.Skip("needs two CPUs")
	}
	for mode, read := range readings {
		t.Run(mode, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{})
			s := read(t, r)
			defer load(t, e, cpus[1:], 60, 1e6)() // it always has something to read
			next := func(cpu int) error {
				return s.Run(t.Context(), func(ev perfbuf.Event) error {
					if ev.Kind() == perfbuf.KindSample && ev.CPU() == cpu {
						return perfbuf.ErrStop
					}
					return nil
				})
			}
			other := open(t, e, perfbuf.Options{CPUs: cpus[:1]})
			require.ErrorIs(t, next(cpus[0]), perfbuf.ErrDisplaced)
			require.NoError(t, next(cpus[1]))
			require.Equal(t, 1, r.Stats().Displaced.Entries)
			require.NoError(t, r.Pause())
			require.NoError(t, r.Resume())
			e.Emit(cpus[0], 1, 40)
			require.NoError(t, next(cpus[0]))
			require.ErrorIs(t, perfbuf.StreamOf(t, other).Run(t.Context(), nothing), perfbuf.ErrDisplaced)

			require.NoError(t, libbpf.MapDelete(e.MapFD(), uint32(cpus[1])))
			require.ErrorIs(t, next(cpus[0]), perfbuf.ErrDisplaced, "again")
			require.Equal(t, 2, r.Stats().Displaced.Entries)
		})
	}
}

// Rings that are read one by one: the error is that of the ring whose entry is another's. It does
// not keep the others from being read.
func TestKernelDisplacedRing(t *testing.T) {
	requireRuns(t)
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	rings := r.Rings()
	open(t, e, perfbuf.Options{CPUs: []int{rings[0].CPU()}})
	ctx, cancel := context.WithCancel(t.Context())
	var others []<-chan struct{}
	for _, ring := range rings[1:] {
		s := perfbuf.StreamOf(t, ring)
		others = append(others, background(t, func() { assert.ErrorIs(t, s.Run(ctx, nothing), context.Canceled) }))
	}
	require.ErrorIs(t, perfbuf.StreamOf(t, rings[0]).Run(t.Context(), nothing), perfbuf.ErrDisplaced)
	require.NoError(t, perfbuf.StreamOf(t, rings[0]).ForEach(nothing), "once")
	cancel()
	for _, done := range others {
		<-done
	}
	require.ErrorIs(t, perfbuf.StreamOf(t, r).ForEach(nothing), perfbuf.ErrDisplaced, "a stream of all rings says so too")
}

// These are no displacements: a pause and changes by others during it, new perf events, the end of
// an older reader.
func TestKernelNotDisplaced(t *testing.T) {
	requireRuns(t)
	e := kerneltest.Load(t)
	older := open(t, e, perfbuf.Options{})
	r := open(t, e, perfbuf.Options{})
	require.NoError(t, older.Close())
	looked(t, r)
	require.NoError(t, r.Pause())
	other := open(t, e, perfbuf.Options{})
	looked(t, r)
	require.NoError(t, r.Resume())
	looked(t, r)
	require.NoError(t, other.Close())
	looked(t, r)
	for i := range r.Rings() {
		require.NoError(t, r.Reopen(i))
	}
	looked(t, r)
	require.NoError(t, perfbuf.StreamOf(t, r).ForEach(nothing))
	require.NoError(t, perfbuf.StreamOf(t, r).Shutdown(t.Context(), nothing))
	require.Zero(t, r.Stats().Displaced.Entries)
	require.ErrorIs(t, perfbuf.StreamOf(t, older).Run(t.Context(), nothing), os.ErrClosed)
}

// However a reader ends that has not noticed yet, it says so in the end, after all that its rings
// held.
func TestKernelDisplacedAtTheEnd(t *testing.T) {
	requireRuns(t)
	e := kerneltest.Load(t)
	for mode, read := range readings {
		t.Run(mode, func(t *testing.T) {
			r := open(t, e, perfbuf.Options{})
			cpus := r.Options().CPUs
			s := read(t, r)
			requireTaken(t, e, cpus)
			newer := open(t, e, perfbuf.Options{})
			got := 0
			err := s.Shutdown(t.Context(), func(perfbuf.Event) error { got++; return nil })
			require.ErrorIs(t, err, perfbuf.ErrDisplaced)
			require.Equal(t, len(cpus), got)
			require.Equal(t, len(cpus), r.Stats().Displaced.Entries)
			require.Equal(t, os.ErrClosed, s.ForEach(nothing))
			requireTaken(t, e, cpus)

			third := open(t, e, perfbuf.Options{})
			require.NoError(t, newer.Close())
			require.Equal(t, len(cpus), newer.Stats().Displaced.Entries)
			require.NoError(t, third.Close())
			require.Zero(t, third.Stats().Displaced.Entries)
		})
	}
}

// A stream of several readers names the map, and goes on with the others.
func TestKernelDisplacedSource(t *testing.T) {
	requireRuns(t)
	one, two := kerneltest.Load(t), kerneltest.Load(t)
	a, b := open(t, one, perfbuf.Options{}), open(t, two, perfbuf.Options{})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, a, b)
	require.NoError(t, err)
	open(t, two, perfbuf.Options{})
	err = s.Run(t.Context(), nothing)
	require.ErrorIs(t, err, perfbuf.ErrDisplaced)
	require.ErrorContains(t, err, fmt.Sprintf("(id %d)", mapID(t, two.MapFD())))
	require.NoError(t, s.Remove(b))
	one.Emit(a.Rings()[0].CPU(), 1, 40)
	require.NoError(t, s.Run(t.Context(), func(perfbuf.Event) error { return perfbuf.ErrStop }))
	require.Zero(t, a.Stats().Displaced.Entries)
}
