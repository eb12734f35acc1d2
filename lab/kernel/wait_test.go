//go:build linux && cgo

package kernel_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// inWait starts a Wait and returns when it is parked. A late wakeup, for
// events already read, ends the Wait of an unordered stream: then it waits again.
func inWait(t *testing.T, r *perfbuf.Reader, w *perfbuf.Stream, ctx context.Context) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	background(t, func() {
		err := w.Wait(ctx)
		for err == nil && w.Options().Order == perfbuf.Unordered() && !slices.ContainsFunc(r.Rings(), func(r *perfbuf.Ring) bool { return r.Used() > 0 }) {
			err = w.Wait(ctx)
		}
		result <- err
	})
	parked(polling, "engine.(*waker).wait")
	return result
}

func TestKernelWaitForData(t *testing.T) {
	eachSource(t, perfbuf.Options{Wakeup: perfbuf.Wakeup{Events: 1}}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		for range 20 {
			for _, ring := range r.Rings() {
				done := inWait(t, r, w, t.Context())
				e.Emit(ring.CPU(), 1, 24)
				require.NoError(t, <-done)
				require.NoError(t, w.Wait(t.Context()), "there is data: no need to wait")
				require.Len(t, collect(t, w), 1)
			}
		}
		stats := r.Stats()
		// There may be fewer than events: a wait looks before it dozes.
		require.NotZero(t, stats.Wakes)
		require.Zero(t, stats.TimerWakes)
	})
}

func TestKernelWaitContext(t *testing.T) {
	cause := errors.New("enough")
	eachSource(t, perfbuf.Options{}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, w.Wait(ctx))

		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
		defer cancel()
		require.Equal(t, cause, w.Wait(ctx))

		ctx, cancelCause := context.WithCancelCause(t.Context())
		done := inWait(t, r, w, ctx)
		cancelCause(cause)
		require.Equal(t, cause, <-done)
		require.Equal(t, cause, w.Wait(ctx), "cancelled before")

		e.Emit(r.Rings()[0].CPU(), 1, 24)
		require.Equal(t, cause, w.Wait(ctx), "goes before data")
		require.NoError(t, w.Wait(t.Context()), "a cancelled wait leaves nothing behind")
		require.Len(t, collect(t, w), 1)
	})
}

// The end of a Wait's context, at any moment, ends that Wait and does not disturb the next.
func TestKernelWaitCancelRace(t *testing.T) {
	eachSource(t, perfbuf.Options{}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		cpu := r.Rings()[0].CPU()
		cancels := make(chan context.CancelFunc)
		background(t, func() {
			rnd := rand.New(rand.NewPCG(10, 11))
			for cancel := range cancels {
				// Some while, up to a few microseconds
				for sum := 0; sum < rnd.IntN(1<<20); sum += 1 << 10 {
				}
				cancel()
			}
		})
		defer close(cancels)
		for i := range 2000 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels <- cancel
			if err := w.Wait(ctx); err != context.Canceled { // a plain comparison: there are many
				require.Equal(t, context.Canceled, err)
			}
			if i%20 == 0 {
				emitted := background(t, func() { e.Emit(cpu, 1, 24) })
				require.NoError(t, w.Wait(t.Context()))
				<-emitted
				require.Len(t, collect(t, w), 1)
			}
		}
	})
}

func TestKernelWaitClose(t *testing.T) {
	eachSource(t, perfbuf.Options{}, func(t *testing.T, _ *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		done := inWait(t, r, w, t.Context())
		require.NoError(t, r.Close())
		require.Equal(t, os.ErrClosed, <-done)
		require.Equal(t, os.ErrClosed, w.Wait(t.Context()))
	})
}

// Closing a stream ends its Wait, but the reader goes on.
func TestKernelWaitOrderedClose(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{})
	s := ordered(t, r)
	done := inWait(t, r, s, t.Context())
	require.NoError(t, s.Close())
	require.Equal(t, os.ErrClosed, <-done)

	e.Emit(r.Rings()[0].CPU(), 1, 24)
	s = unordered(t, r)
	require.NoError(t, s.Wait(t.Context()))
	require.Len(t, collect(t, s), 1)
	done = inWait(t, r, s, t.Context())
	e.Emit(r.Rings()[0].CPU(), 1, 24)
	require.NoError(t, <-done)
}

// A stream also waits for events to come of age, and that ends as well.
func TestKernelWaitSlack(t *testing.T) {
	for name, end := range map[string]func(*perfbuf.Reader, *perfbuf.Stream, func()) error{
		"stream": func(_ *perfbuf.Reader, s *perfbuf.Stream, _ func()) error { s.Close(); return os.ErrClosed },
		"reader": func(r *perfbuf.Reader, _ *perfbuf.Stream, _ func()) error { r.Close(); return os.ErrClosed },
		"cancel": func(_ *perfbuf.Reader, _ *perfbuf.Stream, cancel func()) error { cancel(); return context.Canceled },
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{})
			s := openStream(t, r, perfbuf.StreamOptions{Order: perfbuf.Slack(time.Hour)})
			e.Emit(r.Rings()[0].CPU(), 1, 24)
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			background(t, func() { result <- s.Wait(ctx) })
			parked(polling, "engine.(*waker).sleep")
			require.Equal(t, end(r, s, cancel), <-result)
		})
	}
}

func TestKernelWaitBusy(t *testing.T) {
	eachSource(t, perfbuf.Options{}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
		done := inWait(t, r, w, t.Context())
		require.ErrorIs(t, w.Wait(t.Context()), perfbuf.ErrBusy)
		require.ErrorIs(t, w.ForEach(nothing), perfbuf.ErrBusy)
		e.Emit(r.Rings()[0].CPU(), 1, 24)
		require.NoError(t, <-done)
	})
}

// The kernel's own wakeups, with nobody looking before an hour has passed.
func TestKernelWakeup(t *testing.T) {
	for name, c := range map[string]struct {
		wakeup perfbuf.Wakeup
		events int // how many it takes
	}{
		"events": {perfbuf.Wakeup{Events: 5, PollInterval: time.Hour}, 5},
		"bytes":  {perfbuf.Wakeup{Bytes: 5 * 48, PollInterval: time.Hour}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{Wakeup: c.wakeup})
			s := unordered(t, r)
			cpu := r.Rings()[0].CPU()
			done := inWait(t, r, s, t.Context())
			for range c.events - 1 {
				e.Emit(cpu, 1, 24)
			}
			require.Empty(t, done, "woken too early")
			e.Emit(cpu, 1, 24)
			require.NoError(t, <-done)
			require.Len(t, collect(t, s), c.events)
			stats := r.Stats()
			require.LessOrEqual(t, stats.Wakes, uint64(1)) // none if the wait has looked, as it does before it dozes
			require.Zero(t, stats.SpuriousWakes)
			require.Zero(t, stats.TimerWakes)
		})
	}
}

// One event is seen even where the kernel would only wake for many.
func TestKernelTrickle(t *testing.T) {
	for name, wakeup := range map[string]perfbuf.Wakeup{
		"each":          {},
		"events":        {Events: 1000},
		"bytes":         {Bytes: 64 << 10},
		"events, short": {Events: 1000, PollInterval: 100 * time.Microsecond},
		"bytes, short":  {Bytes: 64 << 10, PollInterval: 100 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			eachSource(t, perfbuf.Options{Wakeup: wakeup}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, w *perfbuf.Stream) {
				for i := range 6 {
					ring := r.Rings()[i%len(r.Rings())]
					// Before the wait, and in the middle of it.
					if i%2 == 0 {
						e.Emit(ring.CPU(), 1, 24)
						require.NoError(t, w.Wait(t.Context()))
					} else {
						done := make(chan error, 1)
						background(t, func() { done <- w.Wait(t.Context()) })
						parked("", "engine.(*waker).wait")
						e.Emit(ring.CPU(), 1, 24)
						require.NoError(t, <-done)
					}
					require.Len(t, collect(t, w), 1)
				}
				if name != "each" {
					require.NotZero(t, r.Stats().TimerWakes)
				}
			})
		})
	}
}

// A wakeup that came while nobody waited is not lost: enough is there, and the next Wait sees that.
func TestKernelWakeupBeforeWait(t *testing.T) {
	for name, opts := range map[string]perfbuf.Options{
		"each":            {},
		"events":          {Wakeup: perfbuf.Wakeup{Events: 5, PollInterval: time.Hour}},
		"events, no time": {Wakeup: perfbuf.Wakeup{Events: 5, PollInterval: time.Hour}, NoTime: true},
		"bytes":           {Wakeup: perfbuf.Wakeup{Bytes: 4 * 40, PollInterval: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, opts)
			s := unordered(t, r)
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), 5, 24)
				// The runtime's poller hears of it and, as nobody waits, forgets it
				time.Sleep(20 * time.Millisecond)
				require.NoError(t, s.Wait(t.Context()))
				require.Len(t, collect(t, s), 5)
			}
		})
	}
}

// readings opens each kind of stream of a reader.
var readings = map[string]func(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream{
	"unordered": unordered,
	"slack": func(t testing.TB, r *perfbuf.Reader) *perfbuf.Stream {
		return openStream(t, r, perfbuf.StreamOptions{Order: perfbuf.Slack(100 * time.Millisecond)})
	},
	"exact": exact,
}

// running runs s until the function that it returns is called, which waits for its end. It counts
// events as they arrive.
func running(t *testing.T, s *perfbuf.Stream, f func(perfbuf.Event) error) (n *atomic.Int64, stop func()) {
	n = new(atomic.Int64)
	ctx, cancel := context.WithCancel(context.Background())
	done := background(t, func() {
		err := s.Run(ctx, func(ev perfbuf.Event) error {
			err := f(ev)
			n.Add(1)
			return err
		})
		if err != context.Canceled {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return n, stop
}

// asleep waits until all rings are armed and polling has stopped. On a busy machine the last look
// may be yet to come.
func asleep(t *testing.T, r *perfbuf.Reader) {
	t.Helper()
	eventually(t, "armed", func() bool { return r.Stats().Doorbell.Armed == len(r.Rings()) })
	polls, since := uint64(0), time.Now()
	eventually(t, "no more looks", func() bool {
		if now := r.Stats().Doorbell.Polls; now != polls {
			polls, since = now, time.Now()
		}
		// The longest time between two looks is shorter
		return time.Since(since) > 1500*time.Millisecond
	})
	require.Equal(t, len(r.Rings()), r.Stats().Doorbell.Armed)
}

// From idle to busy: asleep until an event, which wakes, as rare ones do, and while events flow,
// few do.
func TestKernelDoorbell(t *testing.T) {
	for name, make := range readings {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{})
			requireDoorbell(t, e, r, make(t, r))
		})
	}
}

// requireDoorbell is TestKernelDoorbell for one reader and its stream.
func requireDoorbell(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, s *perfbuf.Stream) {
	t.Helper()
	l := newLedger(t)
	n, stop := running(t, s, l.add)
	asleep(t, r)
	want := int64(0)
	one := func(ring *perfbuf.Ring) {
		e.Emit(ring.CPU(), 1, 24)
		want++
		eventually(t, "delivered", func() bool { return n.Load() == want })
	}
	// It may be a look that finds the event, if that comes late
	for before := r.Stats(); ; asleep(t, r) {
		if one(r.Rings()[0]); r.Stats().Wakes > before.Wakes {
			break
		}
	}
	for _, ring := range r.Rings() {
		eventually(t, "armed", func() bool { return r.Stats().Doorbell.Armed == len(r.Rings()) })
		before := r.Stats()
		one(ring)
		require.Equal(t, before.Doorbell.Disarms, r.Stats().Doorbell.Disarms, "rare events leave their ring armed")
	}
	before := r.Stats()
	// Each burst alone disarms a ring, even on a slow machine
	for range 15 {
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 200, 24)
			want += 200
		}
		time.Sleep(100 * time.Microsecond)
	}
	eventually(t, "delivered", func() bool { return n.Load() == want })
	wakes := r.Stats().Wakes - before.Wakes
	require.Less(t, wakes, uint64(want)/5)
	require.Greater(t, r.Stats().Doorbell.Disarms, before.Doorbell.Disarms)
	t.Logf("%d wakeups for %d events; %+v", wakes, want, r.Stats().Doorbell)
	stop()
	require.NoError(t, r.Stats().Doorbell.Err)
	shut(t, r)
	l.balance(e, r)
	require.Zero(t, l.lost())
}

// Both of a ring's perf events count their losses, and the reader reports the sum.
func TestKernelDoorbellConserves(t *testing.T) {
	e := kerneltest.Load(t)
	requireDoorbellConserves(t, e, open(t, e, perfbuf.Options{RingBytes: 4096}), 40)
}

// requireDoorbellConserves is TestKernelDoorbellConserves of a reader with rings of 4096 bytes,
// which it closes, and of payloads whose records take 64.
func requireDoorbellConserves(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, size int) {
	t.Helper()
	s := unordered(t, r)
	for round := range 3 {
		eventually(t, "armed", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			s.Wait(ctx)
			return r.Stats().Doorbell.Armed == len(r.Rings())
		})
		for i, ring := range r.Rings() {
			// The last of these are lost, as they are of the doorbell
			e.Emit(ring.CPU(), 63+10*(i+1), size)
		}
		require.NoError(t, s.ForEach(nothing))
		require.Zero(t, r.Stats().Doorbell.Armed)
		for i, ring := range r.Rings() {
			e.Emit(ring.CPU(), 63+7*(i+1), size)
		}
		if round < 2 {
			require.NoError(t, s.ForEach(nothing))
		}
	}
	shut(t, r)
	for _, s := range r.Stats().Rings {
		attempted, failed := e.Counts(s.CPU)
		require.GreaterOrEqual(t, failed, uint64(3*17))
		require.Positive(t, s.Dropped, "left in the ring")
		if kernelCounts(t) {
			require.Equal(t, failed, s.Lost)
			require.Equal(t, attempted, s.Samples+s.Dropped+s.Lost)
		}
	}
}

// Single events, at any moment before, while and after a ring is armed, which many have disarmed:
// all arrive.
func TestKernelDoorbellStress(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{Wakeup: perfbuf.Wakeup{PollInterval: time.Millisecond}})
	l := newLedger(t)
	var delivered [1024]atomic.Int64 // by CPU
	_, stop := running(t, unordered(t, r), func(ev perfbuf.Event) error {
		delivered[ev.CPU()].Add(1)
		return l.add(ev)
	})
	var wg sync.WaitGroup
	for _, ring := range r.Rings() {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(ring.CPU()), 3))
			sent := int64(0)
			for i := 0; i < 300 || r.Stats().Doorbell.Arms <= 50; i++ { // a starved reader arms few
				for _, n := range []int{40, 1} {
					e.Emit(ring.CPU(), n, 24)
					for sent += int64(n); delivered[ring.CPU()].Load() != sent; {
						time.Sleep(20 * time.Microsecond)
					}
					// A ring is armed after three or four ms
					time.Sleep(time.Duration(rnd.IntN(8000)) * time.Microsecond)
				}
			}
		})
	}
	wg.Wait()
	stop()
	t.Logf("%+v", r.Stats().Doorbell)
	l.balance(e, r)
	require.Zero(t, l.lost())
}

// Without descriptors for the doorbell, rings wake by bytes, and Stats says why.
func TestKernelDoorbellWithoutDescriptors(t *testing.T) {
	e := kerneltest.Load(t)
	// Also makes the runtime open its permanent descriptors
	require.NoError(t, open(t, e, perfbuf.Options{}).Close())
	before := atRest(t)
	openWith := scarceDescriptors(t)
	without := 0
	for free := 3; ; free++ {
		r, err := openWith(free, e)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			require.Zero(t, without, "it fails with %d descriptors, and does not with fewer", free)
			continue
		}
		o, st := r.Options(), r.Stats().Doorbell
		if st.Err == nil {
			require.Zero(t, o.Wakeup.Bytes)
			require.NoError(t, r.Close())
			break
		}
		without++
		require.ErrorIs(t, st.Err, syscall.EMFILE)
		require.ErrorContains(t, st.Err, "no doorbell")
		require.Equal(t, perfbuf.Wakeup{Bytes: o.RingBytes / 4, PollInterval: 10 * time.Millisecond}, o.Wakeup)
		fds := 0
		for _, b := range belongings(t) {
			if b == "anon_inode:[perf_event]" {
				fds++
			}
		}
		require.Equal(t, len(r.Rings()), fds, "no half of a doorbell")
		requireReads(t, e, r)
		require.Equal(t, perfbuf.DoorbellStats{Err: st.Err}, r.Stats().Doorbell)
		require.NoError(t, r.Pause(), "that needs no doorbell")
		require.NoError(t, r.Resume())
		requireReads(t, e, r)
		require.NoError(t, r.Close())
		returned(t, before)
	}
	require.Positive(t, without)
	returned(t, before)
}
