package perfevent

import (
	"os"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An overwritable ring gets a new event once its own has left its CPU, also more than once.
func TestKernelReopenOverwritable(t *testing.T) {
	kerneltest.RequireRoot(t)
	fd, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "replugged", 4, 4, 1, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	k, err := kernel.OpenOnline(&Map{FD: fd, Overwrite: true}, func([]int) (kernel.Setup, error) {
		return kernel.Setup{CPUs: []int{0}, RingBytes: os.Getpagesize()}, nil
	})
	require.NoError(t, err)
	defer kernel.Discard(k)
	p := k.(*Events)
	for range 2 {
		require.True(t, p.Alive(0))
		// Like an event whose CPU has gone: its clock stands still.
		require.NoError(t, unix.IoctlSetInt(p.rings[0].plain, unix.PERF_EVENT_IOC_DISABLE, 0))
		require.False(t, p.Alive(0))
		require.NoError(t, p.Reopen(0))
		require.NoError(t, p.Set(0, kernel.Plain))
	}
	require.True(t, p.Alive(0))
}
