//go:build linux && cgo && perfbuf_hotplug

package kernel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// All CPUs in exact order, half of which go and come back. How long each step takes is in the log:
// docs/performance.md has it of 8, 64 and 128 CPUs.
func TestKernelWide(t *testing.T) {
	online := kerneltest.OnlineCPUs(t)
	if len(online) < 3 {
		t.Skipf("takes three CPUs, half of them to take offline: online are %v", online)
	}
	half := online[len(online)/2:]
	plug := func(on bool) {
		for _, cpu := range half {
			kerneltest.Plug(t, cpu, on)
		}
	}
	t.Cleanup(func() { plug(true) })
	e := kerneltest.Load(t)
	step := func(what string, f func()) {
		t.Helper()
		begun := time.Now()
		f()
		took := time.Since(begun)
		t.Logf("%d CPUs: %s: %v, %v per CPU", len(online), what, took.Round(10*time.Microsecond), (took / time.Duration(len(online))).Round(time.Microsecond))
	}

	var r *perfbuf.Reader
	step("open", func() { r = open(t, e, perfbuf.Options{RingBytes: 64 << 10}) })
	counts, last := newPerCPU(), uint64(0)
	s := exact(t, r)
	_, stop := running(t, s, func(ev perfbuf.Event) error {
		if ev.Time() < last {
			return fmt.Errorf("out of order: an event of CPU %d, %d ns older than the one before", ev.CPU(), last-ev.Time())
		}
		last = ev.Time()
		return counts.take(ev)
	})
	come := func(cpus []int) {
		t.Helper()
		want := make([]int64, len(cpus))
		for i, cpu := range cpus {
			want[i] = counts.seen[cpu].Load() + 10
			e.Emit(cpu, 10, 40)
		}
		eventually(t, "delivered", func() bool {
			for i, cpu := range cpus {
				if counts.seen[cpu].Load() < want[i] {
					return false
				}
			}
			return true
		})
	}
	step("ten events of each", func() { come(online) })
	step("half of them go", func() { plug(false) })
	step("ten events of each of the others", func() { come(online[:len(online)/2]) })
	step("they come back", func() {
		plug(true)
		eventually(t, "their rings are open again", func() bool { return r.Stats().Hotplug.Reopened >= uint64(len(half)) })
	})
	step("ten events of each again", func() { come(online) })
	stop()
	step("close", func() { require.NoError(t, r.Close()) })
	require.NoError(t, r.Stats().Hotplug.Err)
	require.Zero(t, counts.late.Load())
}
