//go:build linux && cgo

package flight

import (
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/stretchr/testify/require"
)

// A CPU without a ring gets one once the kernel announces a change, as it does for a new CPU.
func TestKernelPlugged(t *testing.T) {
	kerneltest.RequireRoot(t)
	e := kerneltest.Load(t)
	cpus := kerneltest.OnlineCPUs(t)
	if len(cpus) < 2 {
		t.Skip("takes two CPUs")
	}
	k, err := kernel.OpenOnline(&perfevent.Map{FD: e.MapFD(), Overwrite: true}, func([]int) (kernel.Setup, error) {
		return kernel.Setup{CPUs: cpus[:1], RingBytes: 64 << 10}, nil
	})
	require.NoError(t, err)
	provider, err := k.Grace(grace.Options{Programs: true})
	require.NoError(t, err)
	r := newRecorder(k, provider, Options{Partial: true}, k.Now(), nested)
	defer func() { require.NoError(t, r.Close()) }()
	r.follow()
	e.Emit(cpus[0], 3, 40)
	before := k.Now()
	require.NoError(t, os.WriteFile("/sys/devices/system/cpu/cpu0/uevent", []byte("change"), 0))
	for r.Stats().Plugged < uint64(len(cpus)-1) {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, r.Stats().Err)
	require.Equal(t, len(cpus), r.Stats().Rings)
	e.Emit(cpus[1], 2, 40)
	require.NoError(t, e.LastError(cpus[1]))
	s, err := r.Snapshot(t.Context())
	require.NoError(t, err)
	require.Greater(t, s.CompleteSince(), before)
	require.Equal(t, 5, s.Len())
}
