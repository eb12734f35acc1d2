//go:build linux && cgo && perfbuf_hotplug

package flight_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

// This test takes a CPU offline. Run it only in a virtual machine of its own (make test-vm).

func plug(t *testing.T, cpu int, online string) {
	require.NoError(t, os.WriteFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu), []byte(online), 0))
}

// A new CPU gets a ring. A CPU that goes offline and comes back keeps its ring and events. A
// snapshot is complete from then on.
func TestKernelHotplug(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	if len(cpus) < 2 {
		t.Skipf("takes two CPUs, one of them to take offline: online are %v", cpus)
	}
	cold, hot := cpus[0], cpus[len(cpus)-1]
	plug(t, hot, "0")
	t.Cleanup(func() { os.WriteFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", hot), []byte("1"), 0) })
	r := open(t, e, flight.Options{Partial: true})
	require.Equal(t, len(cpus)-1, r.Stats().Rings)
	for n := 1; n <= 3; n++ {
		e.Emit(cold, 10, 40)
		before := perfbuf.Now()
		plug(t, hot, "1")
		for r.Stats().Plugged < uint64(n) {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, len(cpus), r.Stats().Rings)
		e.Emit(hot, 10, 40)
		require.NoError(t, e.LastError(hot))
		s := snapshot(t, r)
		require.Greater(t, s.CompleteSince(), before)
		got := checkFrom(t, s, 0)
		require.Equal(t, span{0, uint64(10 * n)}, got[hot])
		require.Equal(t, span{0, uint64(10 * n)}, got[cold])
		plug(t, hot, "0")
	}
}
