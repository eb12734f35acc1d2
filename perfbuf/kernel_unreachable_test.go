//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A Reader that is dropped and not closed is cleaned up, after every kind of use.
func TestKernelUnreachable(t *testing.T) {
	one := func(perfbuf.Event) error { return perfbuf.ErrStop }
	exact := func(t *testing.T, r *perfbuf.Reader) *perfbuf.Stream {
		s, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		return s
	}
	for name, use := range map[string]func(t *testing.T, r *perfbuf.Reader){
		"not used": func(*testing.T, *perfbuf.Reader) {},
		"pass":     func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, unordered(t, r).ForEach(nothing)) },
		"run": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, unordered(t, r).Run(t.Context(), one))
		},
		"run until cancelled": func(t *testing.T, r *perfbuf.Reader) {
			ctx, cancel := context.WithCancel(t.Context())
			require.Equal(t, context.Canceled, unordered(t, r).Run(ctx, func(perfbuf.Event) error { cancel(); return nil }))
		},
		"run in a goroutine": func(t *testing.T, r *perfbuf.Reader) {
			ended := background(t, func() { require.NoError(t, unordered(t, r).Run(t.Context(), one)) })
			<-ended
		},
		"wait": func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, unordered(t, r).Wait(t.Context())) },
		"rings": func(t *testing.T, r *perfbuf.Reader) {
			ring := r.Rings()[0]
			s, err := ring.Stream()
			require.NoError(t, err)
			require.NoError(t, s.Run(t.Context(), one))
			require.NoError(t, s.Wait(t.Context()))
		},
		"events left by break": func(t *testing.T, r *perfbuf.Reader) {
			for range unordered(t, r).Events(t.Context()) {
				break
			}
		},
		"records left by break": func(t *testing.T, r *perfbuf.Reader) {
			for range unordered(t, r).Records(t.Context()) {
				break
			}
		},
		"flushed": func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, unordered(t, r).Flush()) },
		"paused":  func(t *testing.T, r *perfbuf.Reader) { require.NoError(t, r.Pause()) },
		"exact stream": func(t *testing.T, r *perfbuf.Reader) {
			exact(t, r)
		},
		"exact stream that was run": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, exact(t, r).Run(t.Context(), one))
		},
		"exact stream left by break": func(t *testing.T, r *perfbuf.Reader) {
			for range exact(t, r).Events(t.Context()) {
				break
			}
		},
		"stream that was closed": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, exact(t, r).Close())
		},
		"stream with slack": func(t *testing.T, r *perfbuf.Reader) {
			require.NoError(t, ordered(t, r).Run(t.Context(), one))
		},
	} {
		if name != "paused" {
			t.Run("ring buffers: "+name, func(t *testing.T) { unreachableRingBufs(t, use) })
		}
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			leak.Check(t)
			before := atRest(t)
			var cpus []int
			func() {
				r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 64 << 10})
				require.NoError(t, err)
				cpus = r.Options().CPUs
				for _, cpu := range cpus {
					e.Emit(cpu, 3, 24)
				}
				use(t, r)
				require.NotEqual(t, before, belongings(t))
			}()
			collected(t, before)
			requireUnhooked(t, e, cpus, syscall.ENOENT)
			r := open(t, e, perfbuf.Options{})
			require.Zero(t, r.Stats().ReplacedEntries)
			require.NoError(t, r.Close())
		})
	}
}

// collected waits until the resources of dropped readers are released.
func collected(t *testing.T, before []string) {
	t.Helper()
	for !slices.Equal(before, belongings(t)) {
		runtime.GC()
	}
}

// unreachableRingBufs is TestKernelUnreachable of a ring buffer, and of one in an array.
func unreachableRingBufs(t *testing.T, use func(t *testing.T, r *perfbuf.Reader)) {
	e := kerneltest.LoadRings(t, kerneltest.RingOptions{})
	e.SetShard(0, kerneltest.NewRingBuf(t, 4096))
	leak.Check(t)
	for to, fds := range map[string][2]int{"shared": {e.MapFD(), e.LossesFD()}, "shard": {e.ShardsFD(), e.ShardLossesFD()}} {
		before := atRest(t)
		func() {
			r, err := perfbuf.OpenRingBuf(fds[0], perfbuf.RingBufOptions{Time: perfbuf.PayloadTime(kerneltest.RingTimeAt), LossesFD: fds[1]})
			require.NoError(t, err)
			e.Emit(0, kerneltest.RingEmit{Count: 3, Size: 40, To: to})
			use(t, r)
			require.NotEqual(t, before, belongings(t))
		}()
		collected(t, before)
	}
}

// What hangs on to a Reader, keeps it: a ring, a stream, a goroutine that reads.
func TestKernelReachable(t *testing.T) {
	for name, keep := range map[string]func(t *testing.T, r *perfbuf.Reader) (kept any){
		"reader": func(_ *testing.T, r *perfbuf.Reader) any { return r },
		"ring":   func(_ *testing.T, r *perfbuf.Reader) any { return r.Rings()[0] },
		"stream": func(t *testing.T, r *perfbuf.Reader) any { return ordered(t, r) },
		"method": func(_ *testing.T, r *perfbuf.Reader) any { return unordered(t, r).Flush },
		"waiting goroutine": func(t *testing.T, r *perfbuf.Reader) any {
			ctx, cancel := context.WithCancel(t.Context())
			s := unordered(t, r)
			background(t, func() { require.Equal(t, context.Canceled, s.Run(ctx, nothing)) })
			t.Cleanup(cancel)
			return nil
		},
		"goroutine that waits for a ring": func(t *testing.T, r *perfbuf.Reader) any {
			ctx, cancel := context.WithCancel(t.Context())
			s, err := r.Rings()[0].Stream()
			require.NoError(t, err)
			background(t, func() { require.Equal(t, context.Canceled, s.Run(ctx, nothing)) })
			t.Cleanup(cancel)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			leak.Check(t)
			var cpus []int
			kept := func() any {
				r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 64 << 10})
				require.NoError(t, err)
				cpus = r.Options().CPUs
				return keep(t, r)
			}()
			for range 5 { // a cleanup would have run
				runtime.GC()
				collected := make(chan struct{})
				runtime.AddCleanup(new([64]byte), func(struct{}) { close(collected) }, struct{}{})
				runtime.GC()
				<-collected
				for _, cpu := range cpus {
					e.Emit(cpu, 1, 24)
					require.NoError(t, e.LastError(cpu))
				}
			}
			runtime.KeepAlive(kept)
		})
	}
}
