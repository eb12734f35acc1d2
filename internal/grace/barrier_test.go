package grace

import (
	"errors"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A request after the clock was read leads to another round: an event may be later than that
// reading.
func TestRequestAfterTheClock(t *testing.T) {
	var b *Barrier
	b = New(waitFunc(func() error { return nil }), func() uint64 { b.Request(); return 1 }, BarrierOptions{})
	b.Request()
	require.NoError(t, b.Round())
	require.True(t, b.Requested())
}

// The barrier reads the clock before the wait, which does not cover programs that begin during it.
// It publishes nothing before the wait ends. The watermark never goes back.
func TestWatermark(t *testing.T) {
	const guard = 100
	var clock atomic.Uint64
	var b *Barrier
	provider := waitFunc(func() error {
		before := b.Watermark()
		clock.Add(1_000_000)
		require.Equal(t, before, b.Watermark())
		require.Empty(t, b.Done())
		return nil
	})
	b = New(provider, clock.Load, BarrierOptions{Guard: guard})
	for _, step := range []struct{ now, want uint64 }{
		{0, 0}, {50, 0}, {100, 0}, {101, 0}, {102, 1}, {5000, 4899}, {3000, 4899}, {10, 4899}, {5001, 4900},
		{math.MaxUint64, math.MaxUint64 - 101},
	} {
		clock.Store(step.now)
		require.NoError(t, b.Round())
		<-b.Done()
		require.Equal(t, step.want, b.Watermark(), "at %d", step.now)
	}
	b = New(provider, func() uint64 { return 1_000_000 }, BarrierOptions{})
	require.NoError(t, b.Round())
	require.EqualValues(t, 1_000_000-DefaultGuard-1, b.Watermark())
}

// Requests before a round share it. A request during a round leads to another. Without a request
// there is no round.
func TestRequestsCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		var clock atomic.Uint64
		b := New(p, clock.Load, BarrierOptions{Guard: 1})
		defer b.Close()
		for range 3 {
			b.Request()
			require.True(t, b.Requested())
		}
		b.Start()
		b.Start()
		<-p.waiting
		require.False(t, b.Requested(), "a round that has begun serves no later request")

		for range 3 {
			clock.Store(1000)
			b.Request()
			require.True(t, b.Requested())
		}
		p.end <- nil
		<-p.waiting
		p.end <- nil
		synctest.Wait()
		require.EqualValues(t, 998, b.Watermark())
		require.False(t, b.Requested())
		require.EqualValues(t, 2, b.Stats().Count)
		require.Len(t, b.Done(), 1, "two rounds, one signal")
		time.Sleep(time.Hour)
		require.EqualValues(t, 2, b.Stats().Count, "a round that nobody asked for")
	})
}

// After every request, even concurrent ones, a round reads the clock.
func TestNoRequestIsLost(t *testing.T) {
	var clock atomic.Uint64
	b := New(waitFunc(func() error { runtime.Gosched(); return nil }), func() uint64 { return clock.Add(1) }, BarrierOptions{Guard: 1})
	b.Start()
	defer b.Close()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 2000 {
				now := clock.Add(1)
				b.Request()
				for b.Watermark()+2 <= now { // the round's t0 is the watermark + 2
					runtime.Gosched()
				}
				if i == 0 {
					b.Round() // concurrently with the goroutine
				}
			}
		})
	}
	wg.Wait()
}

// A simulation makes the rounds itself.
func TestRoundServesTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := 0
		b := New(waitFunc(func() error { waits++; return nil }), func() uint64 { return 0 }, BarrierOptions{Interval: time.Second})
		defer b.Close()
		b.Request()
		require.NoError(t, b.Round())
		require.False(t, b.Requested())
		b.Start()
		synctest.Wait()
		require.Equal(t, 1, waits, "the goroutine served it again")
		b.Request()
		synctest.Wait()
		require.Equal(t, 2, waits)
	})
}

func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begin := time.Now()
		const interval, wait = 100 * time.Millisecond, 30 * time.Millisecond
		b := New(waitFunc(func() error {
			starts = append(starts, time.Since(begin))
			time.Sleep(wait)
			return nil
		}), func() uint64 { return 0 }, BarrierOptions{Interval: interval})
		b.Start()
		for range 5 {
			b.Request()
			<-b.Done()
		}
		require.Equal(t, []time.Duration{0, interval, 2 * interval, 3 * interval, 4 * interval}, starts)

		time.Sleep(time.Hour)
		b.Request()
		<-b.Done()
		require.Equal(t, time.Since(begin)-wait, starts[5], "a request after a pause is served at once")

		b.Request()
		synctest.Wait()
		b.Close() // the test ends only with all its goroutines, and time does not pass now
		synctest.Wait()
		require.Len(t, starts, 6)
	})
}

// After a pause, rounds use up the saved time without any interval, then keep to the interval.
func TestIntervalOnAverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, wait, saved = time.Millisecond, 10 * time.Microsecond, 16
		b := New(waitFunc(func() error { time.Sleep(wait); return nil }), func() uint64 { return 0 }, BarrierOptions{Interval: interval})
		b.Start()
		defer b.Close()
		for range 2 {
			time.Sleep(time.Hour)
			begin := time.Now()
			for i := range 3 * saved {
				b.Request()
				<-b.Done()
				want := time.Duration(i) * wait
				if i >= saved {
					want = time.Duration(i-saved+1) * interval
				}
				require.Equal(t, want, time.Since(begin)-wait, i)
			}
		}
	})
}

func TestFailedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Uint64
		clock.Store(10)
		var fail error
		waits := 0
		b := New(waitFunc(func() error { waits++; return fail }), clock.Load, BarrierOptions{Guard: 1})
		b.Start()
		defer b.Close()
		b.Request()
		<-b.Done()
		require.EqualValues(t, 8, b.Watermark())

		clock.Store(1000)
		fail = errors.New("no")
		begin := time.Now()
		for range 50 {
			b.Request()
			<-b.Done()
			require.EqualValues(t, 8, b.Watermark(), "nothing was waited for")
		}
		require.GreaterOrEqual(t, time.Since(begin), 49*10*time.Millisecond, "spins")
		require.Equal(t, 51, waits)
		s := b.Stats()
		require.EqualValues(t, 1, s.Count)
		require.EqualValues(t, 50, s.Failed)
		require.Equal(t, fail, s.Err)
		require.Equal(t, fail, b.Round())

		fail = nil
		b.Request()
		<-b.Done()
		<-b.Done()
		require.EqualValues(t, 998, b.Watermark())
	})
}

// Close closes the provider at once, or after the current wait, without blocking for it.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, start := range []bool{false, true} {
			p := newFake(t)
			b := New(p, func() uint64 { return 100 }, BarrierOptions{})
			if start {
				b.Start()
				synctest.Wait()
			}
			b.Close()
			require.EqualValues(t, 1, p.closed.Load())
			b.Start() // ends at once
		}

		p := newFake(t)
		b := New(p, func() uint64 { return 100 }, BarrierOptions{Guard: 1})
		b.Start()
		b.Request()
		<-p.waiting
		b.Request()
		b.Close()
		b.Close()
		require.Zero(t, p.closed.Load())
		require.False(t, b.Requested())
		p.end <- nil
		synctest.Wait()
		require.EqualValues(t, 1, p.closed.Load())
		require.EqualValues(t, 98, b.Watermark(), "what was waited for holds")
		b.Request()
		require.False(t, b.Requested())
		require.ErrorIs(t, b.Round(), os.ErrClosed)
	})
}

// A wait that Close cuts short has neither failed nor succeeded.
func TestCloseEndsAWait(t *testing.T) {
	b := New(waitFunc(func() error { return os.ErrClosed }), func() uint64 { return 100 }, BarrierOptions{Guard: 1})
	defer b.Close()
	require.ErrorIs(t, b.Round(), os.ErrClosed)
	require.Equal(t, BarrierStats{Provider: "waits"}, b.Stats())
	require.Zero(t, b.Watermark())
	_, err := b.Failing()
	require.NoError(t, err)
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		b := New(p, func() uint64 { return 0 }, BarrierOptions{})
		defer b.Close()
		require.Equal(t, BarrierStats{Provider: "fake"}, b.Stats())
		b.Start()
		for i := range 100 {
			b.Request()
			<-p.waiting
			time.Sleep(time.Duration(100-i) * time.Millisecond)
			require.Zero(t, b.Stats().Stalled)
			p.end <- nil
			<-b.Done()
		}
		s := b.Stats()
		require.EqualValues(t, 100, s.Count)
		require.Zero(t, s.Failed)
		require.InEpsilon(t, 51*time.Millisecond, s.P50, 0.07)
		require.InEpsilon(t, 100*time.Millisecond, s.P99, 0.07)
		require.Equal(t, 100*time.Millisecond, s.Max)
		require.Equal(t, time.Millisecond, s.Last)

		b.Request()
		<-p.waiting
		time.Sleep(time.Second)
		require.Zero(t, b.Stats().Stalled)
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute+time.Second, b.Stats().Stalled)
		p.end <- nil
		<-b.Done()
		require.Zero(t, b.Stats().Stalled)
		require.Equal(t, time.Minute+time.Second, b.Stats().Max)
	})
}

// Rounds, requests and reads allocate nothing.
func TestAllocations(t *testing.T) {
	b := New(waitFunc(func() error { return nil }), func() uint64 { return 1 << 40 }, BarrierOptions{})
	b.Start()
	defer b.Close()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		b.Request()
		<-b.Done()
		_ = b.Stats()
		if b.Watermark() == 0 {
			t.Error("no watermark")
		}
	}))
}

// A closed barrier keeps nothing in memory, not even an owner that it reaches. One that nobody
// closes ends when its owner is garbage.
func TestCloseAfter(t *testing.T) {
	type owner struct{ now uint64 }
	collect := func(gone <-chan struct{}) {
		for {
			runtime.GC()
			select {
			case <-gone:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	collected := make(chan struct{})
	func() {
		o := &owner{}
		runtime.AddCleanup(o, func(c chan struct{}) { close(c) }, collected)
		b := New(waitFunc(func() error { return nil }), func() uint64 { return o.now }, BarrierOptions{})
		CloseAfter(o, b)
		b.Close()
	}()
	collect(collected)

	b := New(waitFunc(func() error { return nil }), func() uint64 { return 1 }, BarrierOptions{})
	CloseAfter(&owner{now: 1}, b)
	collect(b.quit)
}
