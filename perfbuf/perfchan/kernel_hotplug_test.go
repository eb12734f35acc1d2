//go:build linux && cgo && perfbuf_hotplug

package perfchan_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// This test takes CPUs offline: it is for virtual machines that are its alone (make test-vm).

// plugged brings a CPU online or takes it offline.
func plugged(t *testing.T, cpu int, online bool) {
	t.Helper()
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	want := "0"
	if online {
		want = "1"
	}
	if now, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(now)) == want {
		return
	}
	require.NoError(t, os.WriteFile(file, []byte(want), 0))
}

// hotCPUs returns the last two of at least three CPUs, which are online again after the test.
func hotCPUs(t *testing.T) (cold, hot []int) {
	t.Helper()
	cpus := onlineCPUs(t)
	if len(cpus) < 3 {
		t.Skipf("takes three CPUs, two of them to take offline: online are %v", cpus)
	}
	n := len(cpus) - 2
	t.Cleanup(func() {
		for _, cpu := range cpus[n:] {
			plugged(t, cpu, true)
		}
	})
	return cpus[:n], cpus[n:]
}

// A new CPU gets a ring, and a returning one keeps its ring, as in package perfbuf. Here
// perf_buffer__new has set up the rings.
func TestKernelHotplugChannels(t *testing.T) {
	e := kerneltest.Load(t)
	cold, hot := hotCPUs(t)
	hole, last := hot[0], hot[1]
	plugged(t, hole, false)
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
	plugged(t, hole, true)
	comes(hole)
	require.EqualValues(t, 1, pb.Stats().Hotplug.Added)
	for n := range 3 {
		for cpu := range last + 1 {
			comes(cpu)
		}
		plugged(t, last, false)
		comes(cold[0])
		plugged(t, last, true)
		comes(last)
		require.Len(t, pb.Stats().Rings, last+1, "round %d", n)
	}
	require.Positive(t, pb.Stats().Hotplug.Reopened)
	require.NoError(t, pb.Stats().Hotplug.Err)
	require.NoError(t, pb.Err())
}
