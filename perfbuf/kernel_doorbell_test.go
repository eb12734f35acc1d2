//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// readings opens each kind of stream of a reader.
var readings = map[string]func(t *testing.T, r *perfbuf.Reader) *perfbuf.Stream{
	"unordered": func(t *testing.T, r *perfbuf.Reader) *perfbuf.Stream { return perfbuf.StreamOf(t, r) },
	"slack": func(t *testing.T, r *perfbuf.Reader) *perfbuf.Stream {
		s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(100 * time.Millisecond)})
		require.NoError(t, err)
		return s
	},
	"exact": func(t *testing.T, r *perfbuf.Reader) *perfbuf.Stream {
		s, err := r.Stream(perfbuf.StreamOptions{})
		require.NoError(t, err)
		return s
	},
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
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{})
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
	for round := range 3 {
		eventually(t, "armed", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			perfbuf.StreamOf(t, r).Wait(ctx)
			return r.Stats().Doorbell.Armed == len(r.Rings())
		})
		for i, ring := range r.Rings() {
			// The last of these are lost, as they are of the doorbell
			e.Emit(ring.CPU(), 63+10*(i+1), size)
		}
		require.NoError(t, perfbuf.StreamOf(t, r).ForEach(nothing))
		require.Zero(t, r.Stats().Doorbell.Armed)
		for i, ring := range r.Rings() {
			e.Emit(ring.CPU(), 63+7*(i+1), size)
		}
		if round < 2 {
			require.NoError(t, perfbuf.StreamOf(t, r).ForEach(nothing))
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
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{Wakeup: perfbuf.Wakeup{PollInterval: time.Millisecond}})
	l := newLedger(t)
	var delivered [1024]atomic.Int64 // by CPU
	_, stop := running(t, perfbuf.StreamOf(t, r), func(ev perfbuf.Event) error {
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
