//go:build linux && cgo

package kernel_test

import (
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// After a flood, the passes that deliver the rest of it make room for all: the lowest lane has its
// whole share again, on each CPU. Without an order that is one pass.
func TestKernelLanesAfterFlood(t *testing.T) {
	const ringBytes, record = 64 << 10, 64 // of payloads of 40 bytes
	cpus := outputCPUs(t)
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	r := openCounted(t, c, perfbuf.Options{RingBytes: ringBytes, Lanes: []int{25, 50}})
	for _, order := range []perfbuf.Order{perfbuf.Unordered(), perfbuf.Slack(0), {}} {
		s, err := r.Stream(perfbuf.StreamOptions{Order: order})
		require.NoError(t, err)
		before := r.Stats().Outputs.Total().Shed
		var floods sync.WaitGroup
		for _, cpu := range cpus {
			floods.Go(func() {
				for range 100 {
					c.Flood(cpu, 40, 512, 1)
				}
			})
		}
		for r.Stats().Outputs.Total().Shed == before {
			collect(t, s)
		}
		floods.Wait()
		if order == perfbuf.Unordered() {
			collect(t, s)
		} else {
			require.NoError(t, s.Flush())
			for flushed := false; !flushed; {
				require.NoError(t, s.Wait(t.Context()))
				for _, rec := range collect(t, s) {
					flushed = flushed || rec.Kind == perfbuf.KindFlushed
				}
			}
		}
		for _, cpu := range cpus {
			for range ringBytes / 4 / record {
				require.NoError(t, c.OutputIn(0, cpu, 40))
			}
			require.Equal(t, syscall.ECANCELED, c.OutputIn(0, cpu, 40), "that was its share")
		}
		require.NoError(t, s.Close())
	}
}

// Beside ten million outputs in lower lanes, no fork, exec or exit on any CPU is shed or lost, and
// all sums are exact.
func TestKernelLanesExecStorm(t *testing.T) {
	const outputs, ringBytes, size = 10_000_000, 4 << 20, 40
	program, err := exec.LookPath("true")
	require.NoError(t, err)
	cpus := outputCPUs(t)
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{Life: true})
	r := openCounted(t, c, perfbuf.Options{RingBytes: ringBytes, Lanes: []int{40, 60}})
	s := unordered(t, r)
	detach := c.AttachLife()
	told := map[[2]int]uint64{} // as shed, by CPU and lane
	came := map[int][2]uint64{} // by CPU: of lower lanes, and of lane 2
	note := func(ev perfbuf.Event) error {
		cpu := ev.CPU()
		n := came[cpu]
		switch {
		case ev.Kind() == perfbuf.KindShed:
			told[[2]int{cpu, ev.Lane()}] += ev.Lost()
		case len(ev.Bytes()) == workload.Padded(kerneltest.LifeSize):
			n[1]++
		case len(ev.Bytes()) == workload.Padded(size):
			if n[0]++; n[0]%50 == 0 {
				spin(20_000)
			}
		}
		came[cpu] = n
		return nil
	}
	var floods, storms sync.WaitGroup
	var over atomic.Bool
	var processes atomic.Uint64
	for i, cpu := range cpus {
		floods.Go(func() {
			for range outputs/len(cpus)/512 + 1 {
				c.Flood(cpu, size, 512, 0)
			}
		})
		for range 4 {
			storms.Go(func() {
				if err := workload.Pin(cpu); err != nil {
					t.Error(err)
				}
				for n := 0; n < 20 || !over.Load(); {
					if r.Stats().Rings[i].Used > ringBytes*3/4 { // the reader has not run for long
						continue
					}
					if err := exec.Command(program).Run(); err != nil {
						t.Error(err)
						return
					}
					n++
					processes.Add(1)
				}
			})
		}
	}
	var done atomic.Bool
	go func() {
		floods.Wait()
		over.Store(true)
		storms.Wait()
		done.Store(true)
	}()
	for !done.Load() {
		require.NoError(t, s.ForEach(note))
	}
	detach()
	require.NoError(t, s.Drain(t.Context(), note))
	require.NoError(t, s.ForEachPending(note))
	shut(t, r)
	attempted := uint64(0)
	for _, cpu := range cpus {
		var written [3]uint64
		for lane := range 3 {
			got := laneCounts(t, r, cpu, lane)
			require.Equal(t, triedIn(t, c, cpu, lane), got)
			require.Equal(t, got.Attempted, got.Written+got.Shed+got.Full)
			require.Equal(t, got.Shed, told[[2]int{cpu, lane}])
			written[lane], attempted = got.Written, attempted+got.Attempted
		}
		life := laneCounts(t, r, cpu, 2)
		require.Zero(t, life.Shed+life.Full)
		require.NotZero(t, life.Written)
		require.NotZero(t, laneCounts(t, r, cpu, 0).Shed)
		require.Equal(t, [2]uint64{written[0] + written[1], written[2]}, came[cpu])
	}
	require.GreaterOrEqual(t, attempted, uint64(outputs))
	all := r.Stats().Outputs.Total()
	t.Logf("%d processes; %d attempted = %d written + %d shed", processes.Load(), all.Attempted, all.Written, all.Shed)
}
