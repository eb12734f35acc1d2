//go:build linux && cgo

package flight_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

// Interrupts output amid outputs: their records lie in front of those that they have interrupted, and may be later. Snapshots are in order and whole
// all the same, also where the kernel overwrites them.
func TestKernelNestedOutputs(t *testing.T) {
	n := kerneltest.LoadNester(t)
	cpus := online(t)
	r, err := flight.Open(n.MapFD, flight.Options{MaxBytes: len(cpus) * 64 << 10})
	require.NoError(t, err)
	defer r.Close()
	var quit atomic.Bool
	var wg sync.WaitGroup
	stop := func() { quit.Store(true); wg.Wait() }
	defer stop()
	done := make([]atomic.Uint64, cpus[len(cpus)-1]+1)
	for _, cpu := range cpus {
		n.Interrupt(cpu)
		wg.Go(func() {
			for !quit.Load() {
				if err := n.Output(cpu); err != nil {
					t.Error(err)
					return
				}
				done[cpu].Add(64)
			}
		})
	}
	interrupts, amid := 0, 0
	for rounds := 0; rounds < 300 || amid == 0; rounds++ { // on a busy machine, interrupts seldom come amid an output
		ended := map[int]uint64{}
		for _, cpu := range cpus {
			ended[cpu] = done[cpu].Load()
		}
		s := snapshot(t, r)
		type of struct {
			cpu       int
			interrupt bool
		}
		next, last := map[of]uint64{}, uint64(0)
		for ev := range s.Events() {
			require.Equal(t, perfbuf.KindSample, ev.Kind())
			if ev.Time() < last || ev.Time() < s.CompleteSince() || ev.Time() > s.Until() {
				t.Fatalf("%v after %d, of %d to %d", ev, last, s.CompleteSince(), s.Until())
			}
			last = ev.Time()
			e := n.Nested(ev.Bytes())
			k := of{ev.CPU(), e.Interrupt}
			if want, ok := next[k]; ok && e.Number != want {
				t.Fatalf("%v: %+v comes in the place of %d", ev, e, want)
			}
			next[k] = e.Number + 1
			if e.Interrupt {
				interrupts++
			}
			if e.Amid {
				amid++
			}
		}
		for _, ring := range s.Rings() {
			require.NoError(t, ring.Err)
			if behind, ok := next[of{ring.CPU, false}]; ok {
				require.GreaterOrEqual(t, behind, ended[ring.CPU])
			}
		}
		s.Release()
	}
	stop()
	t.Logf("%d events of interrupts, of which %d came amid an output", interrupts, amid)
}
