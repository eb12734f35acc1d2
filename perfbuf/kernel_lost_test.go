//go:build linux && cgo

package perfbuf_test

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A full ring's losses are counted exactly, and reported with the next output that succeeds.
func TestKernelLoss(t *testing.T) {
	for _, name := range []string{"unordered", "ordered"} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 4096})
			src := inOrder(t, r, name == "ordered")
			l := newLedger(t)
			for round := range 10 {
				size := sizes[round]
				fit := 4095 / recordSize(size)
				for _, ring := range r.Rings() {
					// After a loss there is a report in the ring as well.
					require.NoError(t, src.ForEach(l.add))
					before := perfbuf.Now()
					e.Emit(ring.CPU(), fit+round, size)
					after := perfbuf.Now()
					var last uint64
					n := 0
					require.NoError(t, src.ForEach(func(ev perfbuf.Event) error {
						require.Equal(t, perfbuf.KindSample, ev.Kind(), "a loss is reported only with the next output")
						last = ev.Time()
						n++
						return l.add(ev)
					}))
					require.Equal(t, fit, n)
					require.True(t, before < last && last < after)
					if round == 0 {
						continue // nothing lost
					}
					require.Equal(t, syscall.ENOSPC, e.LastError(ring.CPU()))

					before = perfbuf.Now()
					e.Emit(ring.CPU(), 1, size)
					after = perfbuf.Now()
					recs := collectTo(t, src, l)
					require.Len(t, recs, 2)
					require.Equal(t, perfbuf.Record{Source: r,
						Kind: perfbuf.KindLost, CPU: ring.CPU(), Lost: uint64(round), LostAfter: last, Time: recs[1].Time,
					}, recs[0])
					require.Equal(t, perfbuf.KindSample, recs[1].Kind)
					require.True(t, before < recs[0].Time && recs[0].Time < after)
				}
			}
			l.balance(e, r)
			total := r.Stats().Total()
			require.Equal(t, l.lost(), total.Lost)
			require.EqualValues(t, 9*len(r.Rings()), total.LostRecords)
		})
	}
}

// collectTo is collect that also adds events to a ledger.
func collectTo(t *testing.T, src *perfbuf.Stream, l *ledger) (recs []perfbuf.Record) {
	t.Helper()
	require.NoError(t, src.ForEach(func(ev perfbuf.Event) error {
		recs = append(recs, ev.Record())
		return l.add(ev)
	}))
	return recs
}

// A loss before anything was delivered has no lower bound.
func TestKernelLossFirst(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 4096})
	cpu := r.Rings()[0].CPU()
	// Larger than the ring: it never fits.
	e.Emit(cpu, 3, kerneltest.MaxSize)
	require.Equal(t, syscall.ENOSPC, e.LastError(cpu))
	require.Empty(t, collect(t, perfbuf.StreamOf(t, r)))
	e.Emit(cpu, 1, 24)
	recs := collect(t, perfbuf.StreamOf(t, r))
	require.Len(t, recs, 2)
	require.Equal(t, perfbuf.Record{Source: r, Kind: perfbuf.KindLost, CPU: cpu, Lost: 3, LostAfter: 0, Time: recs[1].Time}, recs[0])
}

// What was lost before a stream was made is in it, and a loss at the very start
// of a stream takes its lower bound from nowhere.
func TestKernelLossBeforeOrdered(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 4096})
	cpu := r.Rings()[0].CPU()
	e.Emit(cpu, 100, 56)
	samples := len(collect(t, perfbuf.StreamOf(t, r)))
	e.Emit(cpu, 1, 56)
	recs := collect(t, ordered(t, r))
	require.Len(t, recs, 2)
	require.Equal(t, perfbuf.KindLost, recs[0].Kind)
	require.EqualValues(t, 100-samples, recs[0].Lost)
	require.LessOrEqual(t, recs[0].LostAfter, recs[0].Time)
}

// One byte stays free: 64 records of 64 bytes do not fit into 4096.
func TestKernelNeverQuiteFull(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 4096})
	ring := r.Rings()[0]
	const size = 40
	require.Equal(t, 64, recordSize(size))
	for lap := range uint64(3) {
		e.Emit(ring.CPU(), 63, size)
		require.Equal(t, 63*64, ring.Used())
		e.Emit(ring.CPU(), 1, size)
		require.Equal(t, syscall.ENOSPC, e.LastError(ring.CPU()))
		require.Equal(t, 63*64, ring.Used())
		require.Equal(t, 63*64, r.Stats().Rings[0].Used)
		require.NoError(t, perfbuf.StreamOf(t, ring).ForEach(func(perfbuf.Event) error { return nil }))
		require.Zero(t, ring.Used())
		require.Equal(t, 63*64, r.Stats().Rings[0].HighWater)

		e.Emit(ring.CPU(), 1, size) // with the report of the loss before it
		recs := collect(t, perfbuf.StreamOf(t, ring))
		require.Len(t, recs, 2)
		require.EqualValues(t, 1, recs[0].Lost)
		require.Equal(t, 64*(lap+1), r.Stats().Rings[0].Samples)
	}
}

// A drain of a nearly full ring gives memory back on the way: outputs during it succeed.
func TestKernelEarlyCommit(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 4096})
	ring := r.Rings()[0]
	e.Emit(ring.CPU(), 63, 40)
	l := newLedger(t)
	n := 0
	require.NoError(t, perfbuf.StreamOf(t, ring).ForEach(func(ev perfbuf.Event) error {
		if n++; n > 32 && n%8 == 0 {
			e.Emit(ring.CPU(), 8, 40)
		}
		return l.add(ev)
	}))
	require.Equal(t, 63, n, "what comes during a drain waits for the next")
	require.NoError(t, perfbuf.StreamOf(t, ring).ForEach(l.add))
	require.Zero(t, l.lost())
	attempted, _ := e.Counts(ring.CPU())
	require.Equal(t, attempted, l.delivered())
}
