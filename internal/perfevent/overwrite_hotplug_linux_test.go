package perfevent

import (
	"math"
	"os"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The ring of a CPU that came back is complete once all outputs find its new event, and no sooner.
func TestKernelReplugBegins(t *testing.T) {
	kerneltest.RequireRoot(t)
	fd, err := libbpf.MapCreate(libbpf.MapTypePerfEventArray, "replugged", 4, 4, 1, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	p, err := openOverwritable(fd, func([]int) (OverwriteSetup, error) {
		return OverwriteSetup{CPUs: []int{0}, RingBytes: os.Getpagesize(), Grace: grace.Options{Allow: grace.MapInMap | grace.Membarrier, Programs: true}}, nil
	})
	require.NoError(t, err)
	defer p.Close()
	opened := p.Rings()[0].Began
	require.NoError(t, p.plug(0, 0))
	require.EqualValues(t, uint64(math.MaxUint64-1), p.Rings()[0].Began)

	// Like an event whose CPU has gone: its clock stands still.
	require.NoError(t, unix.IoctlSetInt(p.rings[0].event, unix.PERF_EVENT_IOC_DISABLE, 0))
	require.NoError(t, p.followCPU(0))
	require.Greater(t, p.Rings()[0].Began, opened)
	require.LessOrEqual(t, p.Rings()[0].Began, p.Now())
}
