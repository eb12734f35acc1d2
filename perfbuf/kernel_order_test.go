//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Outputs on alternating CPUs, one after the other has returned: the number over
// all CPUs is the order of times, and none can be late.
func TestKernelOrderAlternating(t *testing.T) {
	for name, mode := range map[string]perfbuf.Order{"no slack": perfbuf.Slack(0), "5ms": perfbuf.Slack(5 * time.Millisecond), "default": {}} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 1 << 20}) // has room for all, on one CPU too
			s, err := r.Stream(perfbuf.StreamOptions{Order: mode})
			require.NoError(t, err)
			const bursts = 3000
			rnd, cpus := rand.New(rand.NewPCG(1, 2)), make([]int, bursts)
			for i := range cpus {
				cpus[i] = r.Rings()[rnd.IntN(len(r.Rings()))].CPU()
			}
			background(t, func() {
				for _, cpu := range cpus {
					e.Emit(cpu, 1, 24+rnd.IntN(200))
				}
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
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 1 << 20})
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
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 512 << 10})
	s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Millisecond)})
	require.NoError(t, err)
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
