//go:build linux && cgo

package flight_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

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

// load outputs on all CPUs until it is stopped. size returns the event size of the nth run.
type load struct {
	done []atomic.Uint64 // outputs of each CPU that have returned
	quit atomic.Bool
	wg   sync.WaitGroup
}

func start(t testing.TB, e *kerneltest.Emitter, size func(n int) int) *load {
	l := &load{done: make([]atomic.Uint64, 256)}
	for _, cpu := range kerneltest.OnlineCPUs(t) {
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

// span holds the numbers of a CPU's events in a snapshot: from first up to next, without a gap
// except reported losses.
type span struct{ first, next uint64 }

// check requires that a snapshot is whole and in order, and returns each CPU's span.
func check(t testing.TB, s *flight.Snapshot) map[int]span {
	t.Helper()
	return checkFrom(t, s, s.CompleteSince())
}

// checkFrom is check for events since a given time.
func checkFrom(t testing.TB, s *flight.Snapshot, from uint64) map[int]span {
	t.Helper()
	for _, ring := range s.Rings() {
		require.NoError(t, ring.Err)
	}
	seen, lost, last, n := map[int]span{}, map[int]uint64{}, uint64(0), 0
	for ev := range s.Events() {
		n++
		if ev.Time() < last || ev.Time() < from || ev.Time() > s.Until() || ev.LostAfter() > ev.Time() {
			t.Fatalf("%v after %d, of %d to %d", ev, last, from, s.Until())
		}
		last = ev.Time()
		if ev.Kind() == perfbuf.KindLost {
			lost[ev.CPU()] += ev.Lost()
			continue
		}
		p, err := kerneltest.Check(ev.Bytes())
		got, ok := seen[p.CPU]
		if err != nil || p.CPU != ev.CPU() || ok && got.next+lost[p.CPU] != p.Seq {
			t.Fatalf("%v: %+v, %v, after %+v and %d losses", ev, p, err, got, lost[p.CPU])
		}
		if !ok {
			got.first = p.Seq
		}
		seen[p.CPU] = span{got.first, p.Seq + 1}
		delete(lost, p.CPU)
	}
	require.Empty(t, lost, "a loss comes with what reports it")
	require.Equal(t, s.Len(), n)
	return seen
}
