//go:build linux && cgo && perfbuf_hotplug

package perfchan_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// This test takes CPUs offline: it is for virtual machines that are its alone (make test-vm).

// A new CPU gets a ring, and a returning one keeps its ring, as in package perfbuf. Here
// perf_buffer__new has set up the rings.
func TestKernelHotplugChannels(t *testing.T) {
	e := kerneltest.Load(t)
	cold, hot := kerneltest.HotCPUs(t, onlineCPUs(t))
	hole, last := hot[0], hot[1]
	kerneltest.Plug(t, hole, false)
	events := make(chan []byte)
	pb := start(t, e, events, nil, 16)
	comes := func(cpu int) {
		t.Helper()
		for written := 0; written < 10; { // outputs are refused until the ring has new perf events
			e.Emit(cpu, 1, 40)
			if e.LastError(cpu) == nil {
				written++
			} else {
				runtime.Gosched()
			}
		}
		for range 10 {
			p, err := kerneltest.Check(<-events)
			require.NoError(t, err)
			require.Equal(t, cpu, p.CPU)
		}
	}
	for _, cpu := range append(slices.Clone(cold), last) {
		comes(cpu)
	}
	kerneltest.Plug(t, hole, true)
	comes(hole)
	require.EqualValues(t, 1, pb.Stats().Hotplug.Added)
	for n := range 3 {
		for cpu := range last + 1 {
			comes(cpu)
		}
		kerneltest.Plug(t, last, false)
		comes(cold[0])
		kerneltest.Plug(t, last, true)
		comes(last)
		require.Len(t, pb.Stats().Rings, last+1, "round %d", n)
	}
	require.Positive(t, pb.Stats().Hotplug.Reopened)
	require.NoError(t, pb.Stats().Hotplug.Err)
	require.NoError(t, pb.Err())
}
