//go:build linux && cgo

package flight_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

// Interrupts output in the middle of other outputs. Their records precede the interrupted ones, but
// may have later times. Snapshots are still ordered and whole, also where the kernel overwrites
// such records.
func TestKernelNestedOutputs(t *testing.T) {
	n := kerneltest.Load(t, "on_tick")
	cpus := kerneltest.OnlineCPUs(t)
	r, err := flight.Open(n.MapFD(), flight.Options{MaxBytes: len(cpus) * 64 << 10})
	require.NoError(t, err)
	defer r.Close()
	var quit atomic.Bool
	var wg sync.WaitGroup
	stop := func() { quit.Store(true); wg.Wait() }
	defer stop()
	for _, cpu := range cpus {
		n.Tick(cpu)
		wg.Go(func() {
			for !quit.Load() {
				if err := n.TryEmit(cpu, 64, kerneltest.MinSize); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	interrupts, amid := 0, 0
	for rounds := 0; rounds < 300 || amid == 0; rounds++ { // interrupts may be rare
		ended := map[int]uint64{}
		for _, cpu := range cpus {
			ended[cpu] = n.Written(cpu)
		}
		s := snapshot(t, r)
		type of struct{ cpu, level int }
		next, last := map[of]uint64{}, uint64(0)
		for ev := range s.Events() {
			require.Equal(t, perfbuf.KindSample, ev.Kind())
			if ev.Time() < last || ev.Time() < s.CompleteSince() || ev.Time() > s.Until() {
				t.Fatalf("%v after %d, of %d to %d", ev, last, s.CompleteSince(), s.Until())
			}
			last = ev.Time()
			p, err := kerneltest.Check(ev.Bytes())
			require.NoError(t, err)
			k := of{ev.CPU(), p.Level}
			if want, ok := next[k]; ok && p.Seq != want {
				t.Fatalf("%v: %+v comes in the place of %d", ev, p, want)
			}
			next[k] = p.Seq + 1
			if p.Source == workload.Tick {
				interrupts++
				amid += p.Level
			}
		}
		for _, ring := range s.Rings() {
			require.NoError(t, ring.Err)
			if behind, ok := next[of{ring.CPU, 0}]; ok {
				require.GreaterOrEqual(t, behind, ended[ring.CPU])
			}
		}
		s.Release()
	}
	stop()
	t.Logf("%d events of interrupts, of which %d came amid an output", interrupts, amid)
}
