//go:build linux && cgo

package kernel_test

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// While the reader is paused, outputs are refused and not lost, and events in the rings stay.
// Resume restores everything.
func TestKernelPause(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{})
	s := unordered(t, r)
	for round := range 3 {
		emitOnAll(e, r, 2, 24)
		require.NoError(t, r.Pause())
		require.NoError(t, r.Pause())
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 5, 24)
			require.Equal(t, syscall.ENOENT, e.LastError(ring.CPU()))
		}
		require.Len(t, collect(t, s), 2*len(r.Rings()))
		require.Empty(t, collect(t, s))

		ctx, cancel := context.WithCancel(t.Context())
		done := inWait(t, r, s, ctx)
		eventually(t, "armed", func() bool { return r.Stats().Doorbell.Armed == len(r.Rings()) })
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 1, 24)
			require.Equal(t, syscall.ENOENT, e.LastError(ring.CPU()), "arming puts nothing back")
		}
		require.NoError(t, r.Resume())
		require.NoError(t, r.Resume())
		cancel()
		require.Equal(t, context.Canceled, <-done)

		done = inWait(t, r, s, t.Context())
		if round == 2 {
			asleep(t, r)
		}
		e.Emit(r.Rings()[0].CPU(), 1, 24) // wakes: from sleep nothing else would end the wait
		require.NoError(t, <-done)
		require.Len(t, collect(t, s), 1)
	}
	shut(t, r)
	for _, s := range r.Stats().Rings {
		attempted, failed := e.Counts(s.CPU)
		require.EqualValues(t, 3*6, failed)
		require.Equal(t, attempted-failed, s.Samples)
		require.Zero(t, s.Lost)
		require.Zero(t, s.Dropped)
	}
	require.Equal(t, os.ErrClosed, r.Resume())
	e.Emit(r.Rings()[0].CPU(), 1, 24)
	require.Equal(t, syscall.ENOENT, e.LastError(r.Rings()[0].CPU()))
}

// Shutdown while programs output: every output that succeeded is delivered, in a stream in order.
func TestKernelShutdown(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream
		order bool
	}{
		"unordered": {make: readings["unordered"]},
		"exact":     {make: readings["exact"], order: true},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 1 << 20})
			s := c.make(t, r)
			l := &orderly{ledger: newLedger(t)}
			add := l.add
			if !c.order {
				add = l.ledger.add
			}
			stop := load(t, e, r.Options().CPUs, 300, 100*time.Microsecond)
			for len(l.cpus) < len(r.Rings()) { // a busy machine's CPUs have their turns late
				runFor(t, s, 100*time.Millisecond, add)
			}
			require.NoError(t, s.Shutdown(t.Context(), add))
			require.Equal(t, os.ErrClosed, s.ForEach(nothing))
			stop()
			emitOnAll(e, r, 1, 24)
			st := r.Stats()
			require.Zero(t, st.Late)
			for i, ring := range r.Rings() {
				a := l.cpus[ring.CPU()]
				require.NotNil(t, a)
				attempted, failed := e.Counts(ring.CPU())
				require.Equal(t, syscall.ENOENT, e.LastError(ring.CPU()))
				require.Equal(t, attempted-failed, a.delivered)
				require.Equal(t, a.delivered, st.Rings[i].Samples)
				require.Zero(t, st.Rings[i].Dropped)
				if kernelCounts(t) {
					// Numbers are those of attempts: of those behind the last that came some were
					// lost, the others refused.
					refused := failed - st.Rings[i].Lost
					require.LessOrEqual(t, refused, attempted-a.next)
					require.Positive(t, refused)
					require.Equal(t, attempted, a.delivered+st.Rings[i].Lost+refused)
				}
				t.Logf("CPU %d: %d attempted, %d delivered, %d lost", ring.CPU(), attempted, a.delivered, st.Rings[i].Lost)
			}
		})
	}
}

// Each ring has a goroutine that waits for it and reads it.
func TestKernelRingWait(t *testing.T) {
	for name, wakeup := range map[string]perfbuf.Wakeup{"doorbell": {}, "each": {Events: 1}, "bytes": {Bytes: 4096, PollInterval: time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 1 << 20, Wakeup: wakeup})
			var ledgers []*ledger
			var streams []*perfbuf.Stream
			var waits atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			var readers []<-chan struct{}
			for _, ring := range r.Rings() {
				l := newLedger(t)
				s := ofRing(t, ring)
				ledgers, streams = append(ledgers, l), append(streams, s)
				readers = append(readers, background(t, func() {
					for {
						if err := s.Wait(ctx); err != nil {
							if err != context.Canceled {
								t.Error(err)
							}
							return
						}
						waits.Add(1)
						if err := s.ForEach(l.add); err != nil {
							t.Error(err)
						}
					}
				}))
			}
			for range 10 {
				for _, ring := range r.Rings() { // single events, of one CPU after the other
					before := ring.Used()
					e.Emit(ring.CPU(), 1, 24)
					eventually(t, "read", func() bool { return ring.Used() <= before })
				}
				time.Sleep(10 * time.Millisecond)
			}
			stop := load(t, e, r.Options().CPUs, 200, 200*time.Microsecond)
			time.Sleep(200 * time.Millisecond)
			stop()
			cancelled := time.AfterFunc(50*time.Millisecond, cancel)
			defer cancelled.Stop()
			for _, done := range readers {
				<-done
			}
			all := newLedger(t)
			for i, ring := range r.Rings() {
				require.NoError(t, streams[i].ForEach(ledgers[i].add))
				e.Emit(ring.CPU(), 1, 24) // reports losses, if the reader was slow
				require.NoError(t, streams[i].ForEach(ledgers[i].add))
				all.cpus[ring.CPU()] = ledgers[i].cpus[ring.CPU()]
			}
			shut(t, r)
			all.balance(e, r)
			require.Positive(t, waits.Load())
		})
	}
}

// A marker comes behind everything that was output before the call, though nothing else wakes.
func TestKernelFlush(t *testing.T) {
	for name, make := range readings {
		for policy, wakeup := range map[string]perfbuf.Wakeup{"doorbell": {}, "bytes": {Bytes: 64 << 10, PollInterval: time.Hour}} {
			t.Run(name+", "+policy, func(t *testing.T) {
				e, r := loadAndOpen(t, perfbuf.Options{Wakeup: wakeup})
				var markers, samples atomic.Int64
				var at atomic.Uint64
				stream := make(t, r)
				_, stop := running(t, stream, func(ev perfbuf.Event) error {
					if ev.Kind() == perfbuf.KindFlushed {
						if ev.CPU() != -1 || ev.Time() < at.Load() {
							t.Errorf("CPU %d, time %d after %d", ev.CPU(), ev.Time(), at.Load())
						}
						at.Store(ev.Time())
						markers.Add(1)
					} else {
						samples.Add(1)
					}
					return nil
				})
				want := int64(0)
				for i := range int64(8) {
					for _, ring := range r.Rings() {
						e.Emit(ring.CPU(), int(i)%4, 24)
						want += i % 4
					}
					before := perfbuf.Now()
					require.NoError(t, stream.Flush())
					eventually(t, "a marker", func() bool { return markers.Load() > i })
					require.Equal(t, want, samples.Load())
					require.Equal(t, i+1, markers.Load())
					require.GreaterOrEqual(t, at.Load(), before)
				}
				stop()
			})
		}
	}
}

// A waiter for a ring gets its events, whether it waits before the Flush or after.
func TestKernelFlushReachesRings(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{Wakeup: perfbuf.Wakeup{Bytes: 64 << 10, PollInterval: time.Hour}})
	var streams []*perfbuf.Stream
	for _, ring := range r.Rings() {
		streams = append(streams, ofRing(t, ring))
	}
	for range 20 {
		done := make(chan error, len(r.Rings()))
		for i, ring := range r.Rings() {
			s := streams[i]
			background(t, func() { done <- s.Wait(t.Context()) })
			e.Emit(ring.CPU(), 1, 24)
			require.NoError(t, s.Flush())
		}
		for range r.Rings() {
			require.NoError(t, <-done)
		}
		for _, s := range streams {
			n := 0
			require.NoError(t, s.ForEach(func(perfbuf.Event) error { n++; return nil }))
			require.Equal(t, 2, n, "the event and a marker")
		}
	}
}
