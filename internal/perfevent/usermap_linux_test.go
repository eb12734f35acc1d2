package perfevent

import (
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Another reader takes an entry before the first look. No events are missing before it was stored.
func TestKernelTakenBeforeTheFirstLook(t *testing.T) {
	kerneltest.RequireRoot(t)
	clock, err := host.NewClock(false)
	require.NoError(t, err)
	fd, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "taken", 4, 4, 1, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	m, err := openUserMap(fd, host.Map{MaxEntries: 1}, clock)
	require.NoError(t, err)
	defer m.close()
	if m.compare < 0 {
		t.Skip(m.state.Err)
	}
	event := func() int {
		e, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_BPF_OUTPUT, Sample_type: unix.PERF_SAMPLE_RAW}, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(e) })
		return e
	}
	before := clock.Now()
	require.NoError(t, m.set(0, event()))
	stored := clock.Now()
	require.NoError(t, bpf.MapUpdate(fd, 0, uint32(event())))
	m.watch(nil)
	d := m.displaced()
	require.NoError(t, d.Err)
	require.Equal(t, 1, d.Entries)
	require.GreaterOrEqual(t, d.OwnedUntil, before)
	require.LessOrEqual(t, d.OwnedUntil, stored)
}
