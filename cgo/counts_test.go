//go:build linux && cgo

package libbpf_test

import (
	"os"
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCounts(t *testing.T) {
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	key, value, err := libbpf.MapSizes(c.CountsFD())
	require.NoError(t, err)
	require.Equal(t, []int{4, 8}, []int{key, value})

	require.Equal(t, syscall.ENOENT, c.Output(0, 24))
	values := make([]uint64, 8192) // as many CPUs as any kernel has
	require.NoError(t, libbpf.MapLookup(c.CountsFD(), uint32(syscall.ENOENT), values))
	require.EqualValues(t, 1, values[0])
	require.NoError(t, libbpf.MapLookup(c.CountsFD(), 0, values))
	require.Zero(t, values[0])
	requireErrno(t, libbpf.MapLookup(c.CountsFD(), 128, values), "bpf_map_lookup_elem", syscall.ENOENT)

	n, err := libbpf.RecursionMisses(c.FaultyFD())
	require.NoError(t, err)
	require.Zero(t, n)

	file, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(file)
	_, _, err = libbpf.MapSizes(file)
	requireErrno(t, err, "bpf_obj_get_info_by_fd", syscall.EINVAL)
	_, err = libbpf.RecursionMisses(file)
	requireErrno(t, err, "bpf_obj_get_info_by_fd", syscall.EINVAL)
}
