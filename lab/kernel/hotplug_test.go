//go:build linux && cgo && perfbuf_hotplug

package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// These tests take CPUs offline: they are for virtual machines that are theirs alone (make
// test-vm).

// perCPU counts events, and checks that they arrive in each CPU's order.
type perCPU struct {
	seen  []atomic.Int64
	after []uint64 // the latest number, plus 1
	late  atomic.Int64
}

func newPerCPU() *perCPU { return &perCPU{seen: make([]atomic.Int64, 256), after: make([]uint64, 256)} }

func (c *perCPU) take(ev perfbuf.Event) error {
	if ev.Kind() != perfbuf.KindSample {
		return nil
	}
	p, err := kerneltest.Check(ev.Bytes())
	if err != nil {
		return err
	}
	if p.CPU != ev.CPU() || p.Seq < c.after[p.CPU] {
		return fmt.Errorf("ring of CPU %d: event %+v after number %d", ev.CPU(), p, int64(c.after[p.CPU])-1)
	}
	c.after[p.CPU] = p.Seq + 1
	c.seen[p.CPU].Add(1)
	if ev.Late() {
		c.late.Add(1)
	}
	return nil
}

// A CPU that is offline when the reader is opened gets a ring when it comes; one that goes and
// comes back goes on; a gap among the online CPUs does no harm.
func TestKernelHotplug(t *testing.T) {
	for name, make := range readings {
		t.Run(name, func(t *testing.T) {
			cold, hot := kerneltest.HotCPUs(t, kerneltest.OnlineCPUs(t))
			e := kerneltest.Load(t)
			hole, last := hot[0], hot[1]
			kerneltest.Plug(t, hole, false)
			r := open(t, e, perfbuf.Options{RingBytes: 64 << 10})
			require.Equal(t, append(slices.Clone(cold), last), r.Options().CPUs)
			counts := newPerCPU()
			running(t, make(t, r), counts.take)
			comes := func(cpu int) {
				t.Helper()
				before := counts.seen[cpu].Load()
				e.Emit(cpu, 10, 40)
				eventually(t, "delivered", func() bool { return counts.seen[cpu].Load() == before+10 })
			}
			for _, cpu := range append(slices.Clone(cold), last) {
				comes(cpu)
			}

			kerneltest.Plug(t, hole, true)
			eventually(t, "a ring for the new CPU", func() bool { return r.Stats().Hotplug.Added == 1 })
			for cpu := range last + 1 {
				comes(cpu)
			}
			for n := range uint64(3) {
				for _, cpu := range hot {
					kerneltest.Plug(t, cpu, false)
					comes(cold[0])
					kerneltest.Plug(t, cpu, true)
				}
				eventually(t, "both are back", func() bool { return r.Stats().Hotplug.Reopened >= 2*(n+1) })
				for cpu := range last + 1 {
					comes(cpu)
				}
			}
			s := r.Stats()
			require.NoError(t, s.Hotplug.Err)
			require.EqualValues(t, 1, s.Hotplug.Added)
			require.Zero(t, counts.late.Load())
			for i, ring := range s.Rings {
				require.Equal(t, i, ring.CPU)
			}
			require.Equal(t, len(s.Rings), len(r.Options().CPUs))
		})
	}
}

// While CPUs come and go, each output that succeeded is delivered.
func TestKernelHotplugUnderLoad(t *testing.T) {
	for name, make := range readings {
		t.Run(name, func(t *testing.T) {
			cold, hot := kerneltest.HotCPUs(t, kerneltest.OnlineCPUs(t))
			e, r := loadAndOpen(t, perfbuf.Options{RingBytes: 256 << 10})
			counts := newPerCPU()
			_, stop := running(t, make(t, r), counts.take)

			var over atomic.Bool
			var done []<-chan struct{}
			for _, cpu := range append(slices.Clone(cold[:1]), hot...) {
				done = append(done, background(t, func() {
					for !over.Load() {
						e.TryEmit(cpu, 5, 40) // fails while the CPU is offline
					}
				}))
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				cpu := hot[rng.IntN(2)]
				kerneltest.Plug(t, cpu, false)
				if rng.IntN(2) == 0 {
					before := counts.seen[cold[0]].Load()
					eventually(t, "others get on", func() bool { return counts.seen[cold[0]].Load() > before })
				}
				kerneltest.Plug(t, cpu, true)
				before, _ := e.Counts(cpu)
				eventually(t, "it outputs again", func() bool { now, _ := e.Counts(cpu); return now > before+20 })
				seen := counts.seen[cpu].Load()
				eventually(t, "its events come", func() bool { return counts.seen[cpu].Load() > seen })
			}
			over.Store(true)
			for _, d := range done {
				<-d
			}
			settled := func() bool {
				for cpu := range hot[1] + 1 {
					attempted, failed := e.Counts(cpu)
					if uint64(counts.seen[cpu].Load()) != attempted-failed {
						return false
					}
				}
				return true
			}
			eventually(t, "all is delivered", settled)
			stop()
			s := r.Stats()
			require.NoError(t, s.Hotplug.Err)
			require.NotZero(t, s.Hotplug.Reopened)
			if name != "slack" {
				require.Zero(t, counts.late.Load())
			}
			r.Close()
		})
	}
}
