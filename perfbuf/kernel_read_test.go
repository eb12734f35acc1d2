//go:build linux && cgo

package perfbuf_test

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// sizes of payloads, small and large, odd and even, that fit into a ring of one page.
var sizes = []int{24, 25, 26, 27, 28, 29, 31, 33, 40, 44, 47, 56, 61, 100, 255, 256, 257, 511, 777, 1000, 1023, 1499, 2000, 2501, 2999, 3000}

// Every byte of every payload arrives, from the right CPU, over many laps of small rings, whichever
// way they are read.
func TestKernelPayloads(t *testing.T) {
	read := map[string]func(t *testing.T, r *perfbuf.Reader, s *perfbuf.Stream, l *ledger){
		"reader": func(t *testing.T, r *perfbuf.Reader, _ *perfbuf.Stream, l *ledger) {
			require.NoError(t, perfbuf.StreamOf(t, r).ForEach(l.add))
		},
		"ordered": func(t *testing.T, _ *perfbuf.Reader, s *perfbuf.Stream, l *ledger) {
			require.NoError(t, s.ForEach(l.add))
		},
		"rings": func(t *testing.T, r *perfbuf.Reader, _ *perfbuf.Stream, l *ledger) {
			for _, ring := range r.Rings() {
				require.NoError(t, perfbuf.StreamOf(t, ring).ForEach(l.add))
			}
		},
		"fold": func(t *testing.T, r *perfbuf.Reader, _ *perfbuf.Stream, l *ledger) {
			n, err := perfbuf.Fold(perfbuf.StreamOf(t, r), 0, func(n int, ev perfbuf.Event) (int, error) { l.add(ev); return n + 1, nil })
			require.NoError(t, err)
			require.Equal(t, len(r.Rings()), n)
		},
		"one by one": func(t *testing.T, r *perfbuf.Reader, _ *perfbuf.Stream, l *ledger) {
			for range r.Rings() {
				require.NoError(t, perfbuf.StreamOf(t, r).ForEach(func(ev perfbuf.Event) error { l.add(ev); return perfbuf.ErrStop }))
			}
		},
		"ring events": func(t *testing.T, r *perfbuf.Reader, _ *perfbuf.Stream, l *ledger) {
			for _, ring := range r.Rings() {
				for ev, err := range perfbuf.StreamOf(t, ring).Events(t.Context()) {
					require.NoError(t, err)
					l.add(ev)
					break // the next would be waited for
				}
			}
		},
	}
	for name, read := range read {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 4096})
			var s *perfbuf.Stream
			if name == "ordered" {
				s = ordered(t, r)
			}
			l := newLedger(t)
			before := perfbuf.Now()
			for range 8 {
				for _, size := range sizes {
					for _, ring := range r.Rings() {
						e.Emit(ring.CPU(), 1, size)
					}
					read(t, r, s, l)
				}
			}
			l.balance(e, r)
			require.Zero(t, l.lost())
			for _, a := range l.cpus {
				require.Greater(t, a.time, before)
				require.Less(t, a.time, perfbuf.Now())
			}
			for _, rs := range r.Stats().Rings {
				require.Greater(t, rs.Bytes, uint64(30*rs.Size), "laps")
				require.Zero(t, rs.Used)
			}
		})
	}
}

// Full batches, so that records wrap around the ring's edge at every possible place.
func TestKernelWraps(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 4096})
	l := newLedger(t)
	wrapped, sizesThatDid := 0, map[int]bool{}
	for _, size := range slices.Repeat(sizes, 4) {
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), (ring.Size()-1)/recordSize(size), size)
		}
		require.NoError(t, perfbuf.StreamOf(t, r).ForEach(func(ev perfbuf.Event) error {
			if ev.Copied(r) {
				wrapped++
				sizesThatDid[ev.Len()] = true
			}
			return l.add(ev)
		}))
	}
	l.balance(e, r)
	require.Zero(t, l.lost())
	require.Greater(t, wrapped, 50)
	require.Greater(t, len(sizesThatDid), 10)
}

// Events that a fold does not come to are there for the next one.
func TestKernelStopEarly(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	for _, ring := range r.Rings() {
		e.Emit(ring.CPU(), 100, 56)
	}
	l := newLedger(t)
	for total := uint64(0); total < uint64(100*len(r.Rings())); {
		n, err := perfbuf.Fold(perfbuf.StreamOf(t, r), 0, func(n int, ev perfbuf.Event) (int, error) {
			l.add(ev)
			if n == 6 {
				return 7, perfbuf.ErrStop
			}
			return n + 1, nil
		})
		require.NoError(t, err)
		require.NotZero(t, n)
		total += uint64(n)
		require.Equal(t, total, l.delivered())
	}
	require.Empty(t, collect(t, perfbuf.StreamOf(t, r)))
	l.balance(e, r)
}

func TestKernelNoTime(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{NoTime: true, RingBytes: 4096})
	require.True(t, r.Options().NoTime)
	_, err := r.Stream(perfbuf.StreamOptions{})
	require.ErrorContains(t, err, "NoTime")
	l := newLedger(t) // also sees to it that Time does not decrease: it is 0
	for _, size := range sizes {
		for _, ring := range r.Rings() {
			e.Emit(ring.CPU(), 4096/size+2, size) // the last are lost
			require.NoError(t, perfbuf.StreamOf(t, ring).ForEach(l.add))
			e.Emit(ring.CPU(), 1, size)
			require.NoError(t, perfbuf.StreamOf(t, ring).ForEach(l.add))
		}
	}
	l.balance(e, r)
	require.NotZero(t, l.lost())
	for _, a := range l.cpus {
		require.Zero(t, a.time)
	}
}

// Only the CPUs asked for have rings, sorted.
func TestKernelExplicitCPUs(t *testing.T) {
	e := kerneltest.Load(t)
	all := open(t, e, perfbuf.Options{RingBytes: 4096}).Options().CPUs
	require.True(t, slices.IsSorted(all))
	last := all[len(all)-1]

	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	asked := slices.Clone(backwards)
	r := open(t, e, perfbuf.Options{RingBytes: 4096, CPUs: asked})
	require.Equal(t, all, r.Options().CPUs)
	require.Equal(t, backwards, asked, "the caller's slice")
	for i, ring := range r.Rings() {
		require.Equal(t, all[i], ring.CPU())
		e.Emit(ring.CPU(), i+1, 24)
		require.Len(t, collect(t, perfbuf.StreamOf(t, ring)), i+1)
	}
	require.NoError(t, r.Close())

	r = open(t, e, perfbuf.Options{RingBytes: 4096, CPUs: []int{last}})
	require.Len(t, r.Rings(), 1)
	for _, cpu := range all {
		e.Emit(cpu, 3, 24)
		require.Equal(t, cpu == last, e.LastError(cpu) == nil)
	}
	recs := collect(t, perfbuf.StreamOf(t, r))
	require.Len(t, recs, 3)
	for _, rec := range recs {
		require.Equal(t, last, rec.CPU)
	}
}

// One goroutine per ring reads while its CPU outputs.
func TestKernelRingPerGoroutine(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 16 << 10})
	var stopped atomic.Bool
	var wg sync.WaitGroup
	accounts := make([]account, len(r.Rings()))
	for i, ring := range r.Rings() {
		wg.Go(func() {
			for last := false; !last; {
				last = stopped.Load()
				_, err := perfbuf.Fold(perfbuf.StreamOf(t, ring), &accounts[i], func(a *account, ev perfbuf.Event) (*account, error) {
					a.add(t, ev)
					return a, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 30 {
		var emit sync.WaitGroup
		for _, ring := range r.Rings() {
			emit.Go(func() { e.Emit(ring.CPU(), 1000, 24+os.Getpid()%8) })
		}
		emit.Wait()
	}
	stopped.Store(true)
	wg.Wait()
	l := newLedger(t)
	for i, ring := range r.Rings() {
		l.cpus[ring.CPU()] = &accounts[i]
		e.Emit(ring.CPU(), 1, 24) // reports the losses
	}
	require.NoError(t, perfbuf.StreamOf(t, r).ForEach(l.add))
	l.balance(e, r)
}
