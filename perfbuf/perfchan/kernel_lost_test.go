//go:build linux && cgo

package perfchan_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfchan"
	"github.com/stretchr/testify/require"
)

// sumLost receives losses until the channel is closed, and then returns their sum.
func sumLost(lost <-chan uint64) (sum func() uint64) {
	total, done := uint64(0), make(chan struct{})
	go func() {
		defer close(done)
		for n := range lost {
			total += n
		}
	}()
	return func() uint64 { <-done; return total }
}

// The channel of losses adds up to all losses, including those that no record has reported.
func TestKernelChannelsFinalLosses(t *testing.T) {
	kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST")
	for name, end := range map[string]func(*perfchan.PerfBuffer){"Stop": (*perfchan.PerfBuffer).Stop, "Close": (*perfchan.PerfBuffer).Close} {
		for _, buffer := range []int{0, 1, 10} {
			t.Run(fmt.Sprint(name, " ", buffer), func(t *testing.T) {
				e := kerneltest.Load(t)
				cpus := onlineCPUs(t)
				emit := func(count, size int) (written, failed uint64) {
					for _, cpu := range cpus {
						e.Emit(cpu, count, size)
						a, f := e.Counts(cpu)
						written += a - f
						failed += f
					}
					return written, failed
				}
				events, lost := make(chan []byte), make(chan uint64, buffer)
				pb, err := perfchan.InitPerfBuf(e.Module(), "events", events, lost, 1)
				require.NoError(t, err)
				defer pb.Close()
				written, _ := emit(1000, 64)
				pb.Start()
				for range written {
					<-events
				}
				for _, cpu := range cpus { // there is room a moment after the last event
					require.Zero(t, report(e, cpu, nil))
				}
				for range cpus {
					<-events
				}
				_, failed := emit(5, kerneltest.MaxSize) // does not fit the ring
				sum := sumLost(lost)
				end(pb)
				require.Equal(t, failed, sum())
				require.Equal(t, failed, pb.Stats().Total().Lost)
				pb.Close()
				total := pb.Stats().Total()
				require.Equal(t, failed, total.Lost)
				require.Equal(t, written+uint64(len(cpus)), total.Samples)
				require.Zero(t, total.Dropped)
			})
		}
	}
}

// Close ends the losses even while programs output. If the channel has a buffer, nobody need
// receive them by then.
func TestKernelChannelsCloseUnderLoad(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := onlineCPUs(t)
	for range 10 {
		events, lost := make(chan []byte, 100), make(chan uint64, 1)
		pb, err := perfchan.InitPerfBuf(e.Module(), "events", events, lost, 1)
		require.NoError(t, err)
		received := uint64(0)
		var receiver, producers sync.WaitGroup
		receiver.Go(func() {
			for range events {
				received++
			}
		})
		pb.Start()
		var over atomic.Bool
		for _, cpu := range cpus {
			producers.Go(func() {
				for n := 1; !over.Load(); n = n%200 + 1 {
					e.TryEmit(cpu, n, 24+2*n)
				}
			})
		}
		awaitLost(pb)
		pb.Close()
		s := pb.Stats()
		over.Store(true)
		producers.Wait()
		after := pb.Stats()
		s.Barrier, after.Barrier = perfbuf.BarrierStats{}, perfbuf.BarrierStats{} // one may still end
		require.Equal(t, s, after, "it was final")
		receiver.Wait()
		require.Equal(t, s.Total().Lost, sumLost(lost)())
		require.LessOrEqual(t, received, s.Total().Samples)
	}
}
