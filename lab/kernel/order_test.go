//go:build linux && cgo

package kernel_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Outputs on alternating CPUs, one after the other has returned: the number over
// all CPUs is the order of times, and none can be late.
func TestKernelOrderAlternating(t *testing.T) {
	for name, mode := range map[string]perfbuf.Order{"no slack": perfbuf.Slack(0), "5ms": perfbuf.Slack(5 * time.Millisecond), "default": {}} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 1 << 20}) // has room for all, on one CPU too
			s := openStream(t, r, perfbuf.StreamOptions{Order: mode})
			const bursts = 3000
			rnd, cpus := rand.New(rand.NewPCG(1, 2)), make([]int, bursts)
			for i := range cpus {
				cpus[i] = r.Rings()[rnd.IntN(len(r.Rings()))].CPU()
			}
			background(t, func() {
				e.EmitOn(cpus, 1, 24+rnd.IntN(200))
			})
			l := newLedger(t)
			last := uint64(0)
			for ev, err := range s.Events(t.Context()) {
				require.NoError(t, err)
				require.False(t, ev.Late())
				require.GreaterOrEqual(t, ev.Time(), last)
				last = ev.Time()
				require.Equal(t, cpus[l.delivered()], ev.CPU())
				l.add(ev)
				if l.delivered() == bursts {
					break
				}
			}
			l.balance(e, r)
			stats := r.Stats()
			require.Zero(t, stats.Late)
			require.Zero(t, stats.Inversions)
		})
	}
}

// The same, with all events there before the first is read.
func TestKernelOrderBacklog(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 1 << 20})
	rnd := rand.New(rand.NewPCG(3, 4))
	var cpus []int // of each event
	for range 1000 {
		cpu, count := r.Rings()[rnd.IntN(len(r.Rings()))].CPU(), 1+rnd.IntN(5)
		e.Emit(cpu, count, 24+rnd.IntN(100))
		cpus = append(cpus, slices.Repeat([]int{cpu}, count)...)
	}
	l := newLedger(t)
	check := func(ev perfbuf.Event) error {
		require.Equal(t, cpus[l.delivered()], ev.CPU())
		require.False(t, ev.Late())
		return l.add(ev)
	}
	s := ordered(t, r)
	// In pieces at first: an early stop loses nothing.
	for range 5 {
		n := 0
		require.NoError(t, s.ForEach(func(ev perfbuf.Event) error {
			if n++; n == 50 {
				check(ev)
				return perfbuf.ErrStop
			}
			return check(ev)
		}))
		require.Equal(t, 50, n)
	}
	// Then all at once, without looking at the clock.
	require.NoError(t, s.ForEachPending(check))
	l.balance(e, r)
}

// All CPUs at once: times do not decrease, but for what says it is late, and all comes exactly
// once.
func TestKernelOrderConcurrent(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 512 << 10})
	s := openStream(t, r, perfbuf.StreamOptions{Order: perfbuf.Slack(time.Millisecond)})
	l := newLedger(t)
	last, late := uint64(0), uint64(0)
	check := func(ev perfbuf.Event) error {
		if ev.Time() < last && !ev.Late() {
			t.Errorf("%v of CPU %d is %d ns before the event before, and not marked", ev.Kind(), ev.CPU(), last-ev.Time())
		}
		if ev.Late() {
			late++
		}
		last = max(last, ev.Time())
		return l.add(ev)
	}
	done := errors.New("done")
	var emit sync.WaitGroup
	for _, ring := range r.Rings() {
		emit.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(ring.CPU()), 5))
			for range 1000 {
				e.Emit(ring.CPU(), 1+rnd.IntN(30), 24+rnd.IntN(100))
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	background(t, func() { emit.Wait(); cancel(done) })
	require.ErrorIs(t, s.Run(ctx, check), done)
	require.NoError(t, s.ForEachPending(check))
	for _, ring := range r.Rings() {
		e.Emit(ring.CPU(), 1, 24) // reports the losses
	}
	require.NoError(t, s.ForEachPending(check))
	l.balance(e, r)
	require.Equal(t, late, r.Stats().Late)
	t.Logf("%d events, %d lost, %d late", l.delivered(), l.lost(), late)
}

// orderly is a ledger of a stream that must have nothing late.
type orderly struct {
	*ledger
	last uint64
}

func (o *orderly) add(ev perfbuf.Event) error {
	if ev.Late() || ev.Time() < o.last {
		o.t.Errorf("%v of CPU %d is %d ns before the event before, late: %v", ev.Kind(), ev.CPU(), o.last-ev.Time(), ev.Late())
	}
	o.last = max(o.last, ev.Time())
	return o.ledger.add(ev)
}

var errOver = errors.New("over")

// runFor runs a stream for a while.
func runFor(t *testing.T, s *perfbuf.Stream, d time.Duration, f func(perfbuf.Event) error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errOver)
	defer cancel()
	require.ErrorIs(t, s.Run(ctx, f), errOver)
}

// finish ends a stream whose emitters have stopped: Drain, and then, for kernels that do not count,
// an output that reports the losses.
func finish(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, s *perfbuf.Stream, f func(perfbuf.Event) error) {
	t.Helper()
	require.NoError(t, s.Drain(t.Context(), f))
	if !kernelCounts(t) {
		emitOnAll(e, r, 1, 24)
		require.NoError(t, s.ForEachPending(f))
	}
}

// All CPUs at once, as fast as they can and in bursts, into rings large and small: nothing is late,
// everything is in order, and all comes exactly once or is reported as lost.
func TestKernelExact(t *testing.T) {
	for name, c := range map[string]struct {
		opts  perfbuf.Options
		order perfbuf.StreamOptions
		pause time.Duration
	}{
		"fast":        {perfbuf.Options{RingBytes: 512 << 10}, perfbuf.StreamOptions{}, 0},
		"small rings": {perfbuf.Options{RingBytes: 8 << 10}, perfbuf.StreamOptions{}, 0},
		"paced":       {perfbuf.Options{}, perfbuf.StreamOptions{}, 500 * time.Microsecond},
		"no interval": {perfbuf.Options{}, perfbuf.StreamOptions{BarrierInterval: -1}, 100 * time.Microsecond},
		"polling": {perfbuf.Options{Wakeup: perfbuf.Wakeup{Bytes: 64 << 10, PollInterval: 20 * time.Millisecond}},
			perfbuf.StreamOptions{}, time.Millisecond},
		"map-in-map": {perfbuf.Options{}, perfbuf.StreamOptions{Barriers: perfbuf.MapInMap}, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, c.opts)
			s, err := r.Stream(c.order)
			require.NoError(t, err)
			l := &orderly{ledger: newLedger(t)}
			stop := load(t, e, r.Options().CPUs, 300, c.pause)
			// A busy machine's grace periods are long
			for first := true; first || r.Stats().Barrier.Count == 0; first = false {
				runFor(t, s, 200*time.Millisecond, l.add)
			}
			stop()
			finish(t, e, r, s, l.add)
			l.balance(e, r)
			require.NoError(t, s.Close())
			shut(t, r)
			l.balance(e, r)
			st := r.Stats()
			require.Zero(t, st.Late)
			require.Zero(t, st.Total().Dropped)
			require.Positive(t, st.Barrier.Count)
			require.NoError(t, st.Barrier.Err)
			t.Logf("%d delivered, %d lost, %d bytes spilled; %+v", l.delivered(), l.lost(), st.SpilledBytes, st.Barrier)
		})
	}
}

// Drain while programs go on delivers only proven events: none is late, and none is lost.
func TestKernelDrainBesidePrograms(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 512 << 10})
	s := exact(t, r)
	l := &orderly{ledger: newLedger(t)}
	stop := load(t, e, r.Options().CPUs, 100, time.Millisecond) // which a slow reader can follow
	for range 100 {
		before := perfbuf.Now()
		require.NoError(t, s.Drain(t.Context(), l.add))
		require.GreaterOrEqual(t, s.Watermark(), before)
	}
	stop()
	finish(t, e, r, s, l.add)
	l.balance(e, r)
	require.Zero(t, r.Stats().Late)
}

// While nothing is output there are no barriers.
func TestKernelExactIdle(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{})
	s := exact(t, r)
	runFor(t, s, 100*time.Millisecond, nothing)
	require.Zero(t, r.Stats().Barrier.Count)
	cpu := r.Rings()[0].CPU()
	for n := range 5 {
		e.Emit(cpu, 1, 24)
		require.NoError(t, s.Wait(t.Context()))
		require.Len(t, collect(t, s), 1)
		require.LessOrEqual(t, r.Stats().Barrier.Count, uint64(2*n+2))
	}
}

// The order by times in the payload is the program's. One CPU outputs after the other.
func TestKernelPayloadTime(t *testing.T) {
	for name, opts := range map[string]perfbuf.Options{"with the kernel's times": {Time: perfbuf.PayloadTime(16)}, "without": {NoTime: true, Time: perfbuf.PayloadTime(16)}} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, opts)
			s := exact(t, r)
			var cpus []int // of each event
			for i := range 500 {
				cpu := r.Rings()[i%len(r.Rings())].CPU()
				e.Emit(cpu, 1+i%3, 24+i%50)
				cpus = append(cpus, slices.Repeat([]int{cpu}, 1+i%3)...)
			}
			n, next := 0, map[int]uint64{}
			require.NoError(t, s.Drain(t.Context(), func(ev perfbuf.Event) error {
				p, err := kerneltest.Check(ev.Bytes())
				require.NoError(t, err)
				require.Equal(t, cpus[n], p.CPU)
				require.Equal(t, next[p.CPU], p.Seq)
				require.Equal(t, p.Time, ev.Time())
				next[p.CPU]++
				n++
				return nil
			}))
			require.Len(t, cpus, n)
			require.Zero(t, r.Stats().Untimed)
		})
	}
}

// Times of CLOCK_BOOTTIME order perf rings and ring buffers, in one stream. On a machine that was
// never suspended this clock is CLOCK_MONOTONIC.
func TestKernelPayloadBootTime(t *testing.T) {
	now := func() uint64 {
		var ts unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts))
		return uint64(ts.Nano())
	}
	e := kerneltest.LoadBootTime(t)
	t.Logf("CLOCK_BOOTTIME is %v ahead", time.Duration(now()-perfbuf.Now()))
	perf := open(t, e.Emitter, perfbuf.Options{Time: perfbuf.PayloadBootTime(kerneltest.RingTimeAt)})
	ringBuf := openRings(t, e.FD(workload.Shared), perfbuf.Options{Time: perfbuf.PayloadBootTime(kerneltest.RingTimeAt)})
	s, err := perfbuf.Merge(perfbuf.StreamOptions{}, perf, ringBuf)
	require.NoError(t, err)
	before := now()
	for i := range 500 {
		to := []workload.Map{workload.Events, workload.Shared}[i%2]
		cpus := perf.Options().CPUs
		require.NoError(t, e.Output(cpus[i/2%len(cpus)], workload.Output{Count: 1, Size: 28 + i%50*8, To: to}))
	}
	n, last := 0, before
	require.NoError(t, s.Drain(t.Context(), func(ev perfbuf.Event) error {
		p, err := kerneltest.Check(ev.Bytes())
		require.NoError(t, err)
		require.Equal(t, p.Time, ev.Time())
		require.Equal(t, []string{"events", "shared"}[n%2], ev.Source())
		require.GreaterOrEqual(t, ev.Time(), last)
		last = ev.Time()
		n++
		return nil
	}))
	require.Equal(t, 500, n)
	require.LessOrEqual(t, last, s.Watermark())
	require.LessOrEqual(t, s.Watermark(), now())
	require.Zero(t, perf.Stats().Untimed+ringBuf.Stats().Untimed)

	monotonic := openRings(t, kerneltest.NewRingBuf(t, 4096), perfbuf.Options{})
	require.ErrorContains(t, s.Add(monotonic), "times of one clock")
	_, err = perfbuf.Merge(perfbuf.StreamOptions{}, monotonic, ringBuf)
	require.ErrorContains(t, err, "times of one clock")
	require.NoError(t, s.Close())
	require.NoError(t, openStream(t, monotonic, perfbuf.StreamOptions{Order: perfbuf.Unordered()}).Add(ringBuf))
}

// Events that are held for longer than the rings can hold them are copied out: every byte arrives,
// in order; events beyond the budget are lost and reported.
func TestKernelSpill(t *testing.T) {
	for name, c := range map[string]struct {
		order perfbuf.StreamOptions
		all   bool
	}{
		"exact":       {perfbuf.StreamOptions{BarrierInterval: 200 * time.Millisecond, Spill: perfbuf.Spill{Bytes: 64 << 20}}, true},
		"slack":       {perfbuf.StreamOptions{Order: perfbuf.Slack(200 * time.Millisecond), Spill: perfbuf.Spill{Bytes: 64 << 20}}, true},
		"over budget": {perfbuf.StreamOptions{BarrierInterval: 200 * time.Millisecond, Spill: perfbuf.Spill{Bytes: 512 << 10}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 256 << 10})
			s, err := r.Stream(c.order)
			require.NoError(t, err)
			l := &orderly{ledger: newLedger(t)}
			// However slow the machine: until the budget is used, or enough of it, and not much
			// more.
			var load sync.WaitGroup
			for _, cpu := range r.Options().CPUs {
				load.Go(func() {
					for st := r.Stats(); st.SpilledBytes <= 512<<10 || !c.all && st.SpillRefused == 0; st = r.Stats() {
						e.Emit(cpu, 100, 24+rand.IntN(476))
						time.Sleep(time.Millisecond)
					}
				})
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			background(t, func() { load.Wait(); cancel(errOver) })
			require.ErrorIs(t, s.Run(ctx, l.add), errOver)
			finish(t, e, r, s, l.add)
			l.balance(e, r)
			st := r.Stats()
			t.Logf("%d delivered, %d lost, %d bytes spilled, %d times refused", l.delivered(), l.lost(), st.SpilledBytes, st.SpillRefused)
			require.Greater(t, st.SpilledBytes, uint64(256<<10))
			require.Equal(t, c.all, st.SpillRefused == 0)
			require.Zero(t, st.SpillUsed)
			require.Zero(t, st.Late)
		})
	}
}

// All CPUs at once, then none: in exact mode no event comes up to the watermark, which goes on in
// either case, and stands behind the last event at the end.
func TestKernelWatermark(t *testing.T) {
	for name, c := range map[string]struct {
		opts perfbuf.Options
		mode perfbuf.Order
	}{
		"exact":          {mode: perfbuf.Order{}},
		"exact, overrun": {opts: perfbuf.Options{RingBytes: 8 << 10}, mode: perfbuf.Order{}},
		"slack":          {mode: perfbuf.Slack(2 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			const every = 5 * time.Millisecond
			e, r := loadAndOpen(t, c.opts)
			s := openStream(t, r, perfbuf.StreamOptions{Order: c.mode, FlushEvery: every})
			l := newLedger(t)
			var markers atomic.Int64
			var marked uint64
			f := func(ev perfbuf.Event) error {
				w := s.Watermark()
				if ev.Kind() == perfbuf.KindFlushed {
					if ev.Time() < w || markers.Load() > 0 && ev.Time() < marked+uint64(every) {
						t.Errorf("a marker of %d after one of %d, where the watermark is %d", ev.Time(), marked, w)
					}
					marked = ev.Time()
					markers.Add(1)
					return nil
				}
				if ev.Kind() == perfbuf.KindSample && ev.Time() <= w && c.mode == (perfbuf.Order{}) {
					t.Errorf("CPU %d: an event is %d ns before the watermark", ev.CPU(), w-ev.Time())
				}
				return l.add(ev)
			}
			var over atomic.Bool
			watched := make(chan bool)
			background(t, func() { // from another goroutine
				defer close(watched)
				for last := uint64(0); !over.Load(); time.Sleep(100 * time.Microsecond) {
					w := s.Watermark()
					if w < last || w > perfbuf.Now() {
						t.Errorf("the watermark is %d after %d, at %d", w, last, perfbuf.Now())
					}
					last = w
				}
			})
			_, end := running(t, s, f)
			stop := load(t, e, r.Options().CPUs, 300, 50*time.Microsecond)
			eventually(t, "markers between events", func() bool { return markers.Load() >= 20 })
			stop()
			at, n := perfbuf.Now(), markers.Load()
			eventually(t, "markers without events", func() bool { return markers.Load() >= n+5 })
			require.Greater(t, s.Watermark(), at)
			end()
			at = perfbuf.Now()
			finish(t, e, r, s, f)
			// The guard is 10 us, or more with nest levels
			require.GreaterOrEqual(t, s.Watermark(), at-20_000)
			if c.mode == (perfbuf.Order{}) {
				l.balance(e, r)
			}
			over.Store(true)
			<-watched
			before := s.Watermark()
			require.NoError(t, r.Close())
			require.Equal(t, before, s.Watermark())
		})
	}
}

// On an idle system, exact mode makes one barrier per interval, and the process sleeps in between.
func TestKernelFlushEveryWhenIdle(t *testing.T) {
	_, r := loadAndOpen(t, perfbuf.Options{})
	s := openStream(t, r, perfbuf.StreamOptions{FlushEvery: 20 * time.Millisecond})
	n := uint64(0)
	require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
		require.Equal(t, perfbuf.KindFlushed, ev.Kind())
		if n++; n == 10 {
			return perfbuf.ErrStop
		}
		return nil
	}))
	st := r.Stats()
	require.LessOrEqual(t, st.Barrier.Count, n+1, "one may have been asked for at the end")
	require.Equal(t, n, st.Passes)
	require.Zero(t, st.Wakes)
}
