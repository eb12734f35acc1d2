//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

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
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 1, 24)
		}
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
			e := kerneltest.Load(t)
			r := open(t, e, c.opts)
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
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 512 << 10})
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	l := &orderly{ledger: newLedger(t)}
	stop := load(t, e, r.Options().CPUs, 100, 0)
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
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
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
			e := kerneltest.Load(t)
			r := open(t, e, opts)
			s, err := r.Stream(perfbuf.StreamOptions{})
			require.NoError(t, err)
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
