//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf_test

import (
	"os"
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// requireErrno requires an error of a call, and returns what libbpf said.
func requireErrno(t *testing.T, err error, call string, errnos ...syscall.Errno) (detail string) {
	t.Helper()
	var e *bpf.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, call, e.Call)
	require.Contains(t, errnos, e.Errno)
	return e.Detail
}

func TestNewErrors(t *testing.T) {
	e := kerneltest.Load(t)
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	bad := attr()
	bad.Config = 999

	// For a bad descriptor the kernel says EBADFD where it is asked for the map's type, EBADF
	// elsewhere.
	for name, c := range map[string]struct {
		fd, pages int
		attr      *unix.PerfEventAttr
		cpus      []int
		errnos    []syscall.Errno
		detail    string
	}{
		"wrong map type":    {e.ArrayFD(), 1, attr(), []int{0}, []syscall.Errno{syscall.EINVAL}, "should be BPF_MAP_TYPE_PERF_EVENT_ARRAY"},
		"a program":         {e.ProgFD(), 1, attr(), []int{0}, []syscall.Errno{syscall.EINVAL}, ""},
		"no BPF object":     {int(file.Fd()), 1, attr(), []int{0}, []syscall.Errno{syscall.EINVAL}, "failed to set cpu #0, key 0"},
		"no descriptor":     {-1, 1, attr(), []int{0}, []syscall.Errno{syscall.EBADF, syscall.EBADFD}, "map FD -1"},
		"closed descriptor": {1 << 20, 1, attr(), []int{0}, []syscall.Errno{syscall.EBADF, syscall.EBADFD}, "map FD 1048576"},
		"3 pages":           {e.MapFD(), 3, attr(), []int{0}, []syscall.Errno{syscall.EINVAL}, "page count should be power of two, but is 3"},
		"absurd CPU":        {e.MapFD(), 1, attr(), []int{1 << 20}, []syscall.Errno{syscall.ENODEV, syscall.EINVAL, syscall.E2BIG}, "on cpu #1048576"},
		"absurd attr":       {e.MapFD(), 1, bad, []int{0}, []syscall.Errno{syscall.ENOENT, syscall.EINVAL}, "failed to open perf buffer event on cpu #0"},
	} {
		t.Run(name, func(t *testing.T) {
			before := perfEvents(t)
			pb, err := libbpf.NewRaw(c.fd, c.pages, c.attr, c.cpus, make([]int, len(c.cpus)))
			require.Nil(t, pb)
			require.Contains(t, requireErrno(t, err, "perf_buffer__new_raw", c.errnos...), c.detail)
			require.Equal(t, before, perfEvents(t), "left behind")
		})
	}
}

// perfEvents is how many descriptors of perf events are open.
func perfEvents(t *testing.T) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if link, _ := os.Readlink("/proc/self/fd/" + fd.Name()); link == "anon_inode:[perf_event]" {
			n++
		}
	}
	return n
}

// What libbpf would read beyond the end of is refused before.
func TestNewRawLists(t *testing.T) {
	e := kerneltest.Load(t)
	for _, c := range [][2][]int{{nil, nil}, {{0}, nil}, {nil, {0}}, {{0, 1}, {0}}, {{0}, {0, 1}}} {
		pb, err := libbpf.NewRaw(e.MapFD(), 1, attr(), c[0], c[1])
		require.Nil(t, pb)
		require.ErrorContains(t, err, "perf_buffer__new_raw")
	}
}
