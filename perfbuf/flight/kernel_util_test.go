//go:build linux && cgo

package flight_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

func online(t testing.TB) []int {
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	return cpus
}

// open opens a recorder that is closed when the test ends.
func open(t testing.TB, e *kerneltest.Emitter, o flight.Options) *flight.Recorder {
	t.Helper()
	r, err := flight.Open(e.MapFD(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func snapshot(t testing.TB, r *flight.Recorder) *flight.Snapshot {
	t.Helper()
	s, err := r.Snapshot(t.Context())
	require.NoError(t, err)
	return s
}

// load outputs on all CPUs until it is stopped. size says how large the nth run's events are.
type load struct {
	done []atomic.Uint64 // outputs of each CPU that have returned
	quit atomic.Bool
	wg   sync.WaitGroup
}

func start(t testing.TB, e *kerneltest.Emitter, size func(n int) int) *load {
	l := &load{done: make([]atomic.Uint64, 256)}
	for _, cpu := range online(t) {
		l.wg.Go(func() {
			for n := 0; !l.quit.Load(); n++ {
				if e.TryEmit(cpu, 64, size(n)) != nil {
					t.Error("output failed")
					return
				}
				l.done[cpu].Add(64)
				runtime.Gosched()
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	l.quit.Store(true)
	l.wg.Wait()
}

// span is the numbers of a CPU's events in a snapshot: from first up to next, without a gap.
type span struct{ first, next uint64 }

// check makes sure that a snapshot is in order and whole, and has all that a CPU had output, as far as its ring goes.
func check(t testing.TB, s *flight.Snapshot) map[int]span {
	t.Helper()
	return checkFrom(t, s, s.CompleteSince())
}

// checkFrom is check with events from a time on.
func checkFrom(t testing.TB, s *flight.Snapshot, from uint64) map[int]span {
	t.Helper()
	for _, ring := range s.Rings() {
		require.NoError(t, ring.Err)
	}
	seen, last, n := map[int]span{}, uint64(0), 0
	for ev := range s.Events() {
		n++
		if ev.Time() < last || ev.Time() < from || ev.Time() > s.Until() {
			t.Fatalf("%v after %d, of %d to %d", ev, last, from, s.Until())
		}
		last = ev.Time()
		if ev.Kind() != perfbuf.KindSample {
			t.Fatalf("event is %v", ev)
		}
		p, err := kerneltest.Check(ev.Bytes())
		if err != nil || p.CPU != ev.CPU() {
			t.Fatalf("%v: %+v, %v", ev, p, err)
		}
		if got, ok := seen[p.CPU]; !ok {
			seen[p.CPU] = span{p.Seq, p.Seq + 1}
		} else if got.next != p.Seq {
			t.Fatalf("CPU %d: number %d after %d", p.CPU, p.Seq, got.next-1)
		} else {
			seen[p.CPU] = span{got.first, p.Seq + 1}
		}
	}
	require.Equal(t, s.Len(), n)
	return seen
}
