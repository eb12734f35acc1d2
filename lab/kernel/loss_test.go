//go:build linux && cgo

package kernel_test

import (
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A full ring's losses are counted exactly, and reported with the next output that succeeds.
func TestKernelLoss(t *testing.T) {
	eachSource(t, perfbuf.Options{RingBytes: 4096}, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
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
				require.Equal(t, perfbuf.Record{Source: "events",
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
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
	s := unordered(t, r)
	cpu := r.Rings()[0].CPU()
	// Larger than the ring: it never fits.
	e.Emit(cpu, 3, kerneltest.MaxSize)
	require.Equal(t, syscall.ENOSPC, e.LastError(cpu))
	require.Empty(t, collect(t, s))
	e.Emit(cpu, 1, 24)
	recs := collect(t, s)
	require.Len(t, recs, 2)
	require.Equal(t, perfbuf.Record{Source: "events", Kind: perfbuf.KindLost, CPU: cpu, Lost: 3, LostAfter: 0, Time: recs[1].Time}, recs[0])
}

// What was lost before a stream was made is in it, and a loss at the very start
// of a stream takes its lower bound from nowhere.
func TestKernelLossBeforeOrdered(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
	cpu := r.Rings()[0].CPU()
	e.Emit(cpu, 100, 56)
	s := unordered(t, r)
	samples := len(collect(t, s))
	require.NoError(t, s.Close())
	e.Emit(cpu, 1, 56)
	recs := collect(t, ordered(t, r))
	require.Len(t, recs, 2)
	require.Equal(t, perfbuf.KindLost, recs[0].Kind)
	require.EqualValues(t, 100-samples, recs[0].Lost)
	require.LessOrEqual(t, recs[0].LostAfter, recs[0].Time)
}

// One byte stays free: 64 records of 64 bytes do not fit into 4096.
func TestKernelNeverQuiteFull(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
	ring := r.Rings()[0]
	s := ofRing(t, ring)
	const size = 40
	require.Equal(t, 64, recordSize(size))
	for lap := range uint64(3) {
		e.Emit(ring.CPU(), 63, size)
		require.Equal(t, 63*64, ring.Used())
		e.Emit(ring.CPU(), 1, size)
		require.Equal(t, syscall.ENOSPC, e.LastError(ring.CPU()))
		require.Equal(t, 63*64, ring.Used())
		require.Equal(t, 63*64, r.Stats().Rings[0].Used)
		require.NoError(t, s.ForEach(func(perfbuf.Event) error { return nil }))
		require.Zero(t, ring.Used())
		require.Equal(t, 63*64, r.Stats().Rings[0].HighWater)

		e.Emit(ring.CPU(), 1, size) // with the report of the loss before it
		recs := collect(t, s)
		require.Len(t, recs, 2)
		require.EqualValues(t, 1, recs[0].Lost)
		require.Equal(t, 64*(lap+1), r.Stats().Rings[0].Samples)
	}
}

// A drain of a nearly full ring gives memory back on the way: outputs during it succeed.
func TestKernelEarlyCommit(t *testing.T) {
	e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
	ring := r.Rings()[0]
	s := ofRing(t, ring)
	e.Emit(ring.CPU(), 63, 40)
	l := newLedger(t)
	n := 0
	require.NoError(t, s.ForEach(func(ev perfbuf.Event) error {
		if n++; n > 32 && n%8 == 0 {
			e.Emit(ring.CPU(), 8, 40)
		}
		return l.add(ev)
	}))
	require.Equal(t, 63, n, "what comes during a drain waits for the next")
	require.NoError(t, s.ForEach(l.add))
	require.Zero(t, l.lost())
	attempted, _ := e.Counts(ring.CPU())
	require.Equal(t, attempted, l.delivered())
}

// kernelCounts reports whether the kernel has PERF_FORMAT_LOST: Linux 6.0.
func kernelCounts(t testing.TB) bool {
	t.Helper()
	return kerneltest.AtLeast(t, 6, 0)
}

// consumers read by all means until f returns an error or the reader is closed.
var consumers = map[string]func(t *testing.T, r *perfbuf.Reader, f func() error) error{
	"fold": func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		s := unordered(t, r)
		for {
			if err := s.Wait(t.Context()); err != nil {
				return err
			}
			if _, err := perfbuf.Fold(s, 0, func(n int, _ perfbuf.Event) (int, error) { return n, f() }); err != nil {
				return err
			}
		}
	},
	"records": func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		for _, err := range unordered(t, r).Records(t.Context()) {
			if err == nil {
				err = f()
			}
			if err != nil {
				return err
			}
		}
		return nil
	},
	"slack":     orderedBy(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Millisecond)}),
	"drop late": orderedBy(perfbuf.StreamOptions{Order: perfbuf.Slack(0), DropLate: true}),
	"exact":     orderedBy(perfbuf.StreamOptions{}),
	"exact, one stream after another": func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		for {
			s, err := r.Stream(perfbuf.StreamOptions{})
			if err != nil {
				return err
			}
			n := 0
			err = s.Run(t.Context(), func(perfbuf.Event) error {
				if n++; n == 500 {
					s.Close()
				}
				return f()
			})
			if err != os.ErrClosed {
				return err
			} // of the stream, or of the reader: the next is refused then
		}
	},
}

func orderedBy(o perfbuf.StreamOptions) func(*testing.T, *perfbuf.Reader, func() error) error {
	return func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		s, err := r.Stream(o)
		if err != nil {
			return err
		}
		return s.Run(t.Context(), func(perfbuf.Event) error { return f() })
	}
}

// Close under full load, for each kind of consumer: every event that the rings took was delivered
// or is counted as dropped, up to the last one under way.
func TestKernelConservation(t *testing.T) {
	for name, consume := range consumers {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			for round := range 4 {
				r := open(t, e, perfbuf.Options{RingBytes: 16 << 10 << (round % 3)})
				type counts struct{ took, refused uint64 }
				count := func(cpu int) counts {
					attempted, failed := e.Counts(cpu)
					return counts{attempted - failed, failed}
				}
				before := map[int]counts{}
				for _, cpu := range r.Options().CPUs {
					before[cpu] = count(cpu)
				}
				stop := load(t, e, r.Options().CPUs, 300, 0)
				n, closer := 0, make(chan struct{})
				signal := sync.OnceFunc(func() { close(closer) })
				closed := background(t, func() { <-closer; r.Close() })
				err := consume(t, r, func() error {
					if n++; n > 1000 {
						if round%2 == 0 {
							r.Close()
						}
						signal()
					}
					return nil
				})
				require.Equal(t, os.ErrClosed, err)
				<-closed
				<-r.Done()
				stop()
				for _, s := range r.Stats().Rings {
					now, old := count(s.CPU), before[s.CPU]
					require.Equal(t, now.took-old.took, s.Samples+s.Dropped, "CPU %d", s.CPU)
					require.LessOrEqual(t, s.Lost, now.refused-old.refused, "without ENOENT after Close")
				}
			}
		})
	}
}

// Without a refusal for other reasons, as long as the reader is open, the balance is exact, with
// Lost, even if events are left in the rings.
func TestKernelBalance(t *testing.T) {
	for name, consume := range consumers {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 8 << 10})
			n := 0
			stop := load(t, e, r.Options().CPUs, 300, 0)
			require.ErrorIs(t, consume(t, r, func() error {
				if n++; n > 4000 {
					return errOver
				}
				return nil
			}), errOver)
			stop()
			kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST, for losses that nothing has reported")
			shut(t, r)
			for _, s := range r.Stats().Rings {
				attempted, failed := e.Counts(s.CPU)
				require.Equal(t, attempted, s.Samples+s.Dropped+s.Lost, "CPU %d", s.CPU)
				require.Equal(t, failed, s.Lost, "CPU %d", s.CPU)
			}
		})
	}
}

// Losses that nothing reports: Drain delivers them, and so does a stream that waits; the counts
// have them after Close, whether they were delivered or not.
func TestKernelUnreportedLosses(t *testing.T) {
	kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST")
	for name, end := range map[string]func(*testing.T, *perfbuf.Reader, *ledger){
		"drain": func(t *testing.T, r *perfbuf.Reader, l *ledger) {
			s := exact(t, r)
			require.NoError(t, s.Drain(t.Context(), l.add))
		},
		"flush": func(t *testing.T, r *perfbuf.Reader, l *ledger) {
			s := openStream(t, r, perfbuf.StreamOptions{Order: perfbuf.Slack(time.Hour)})
			require.NoError(t, s.ForEachPending(l.add))
		},
		"silence": func(t *testing.T, r *perfbuf.Reader, l *ledger) {
			s := exact(t, r)
			require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
				l.add(ev)
				if l.lost() == uint64(10*len(r.Rings())) {
					return perfbuf.ErrStop
				}
				return nil
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
			l := newLedger(t)
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), 63+10, 40) // 64 bytes each
			}
			end(t, r, l)
			l.balance(e, r)
			require.EqualValues(t, 10*len(r.Rings()), r.Stats().Total().Lost)
			shut(t, r)
			l.balance(e, r)
		})
	}
	t.Run("never delivered", func(t *testing.T) {
		e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 4096})
		ring := r.Rings()[0]
		e.Emit(ring.CPU(), 63+10, 40)
		require.Len(t, collect(t, unordered(t, r)), 63)
		require.Zero(t, r.Stats().Rings[0].Lost)
		shut(t, r)
		require.EqualValues(t, 10, r.Stats().Rings[0].Lost)
	})
}
