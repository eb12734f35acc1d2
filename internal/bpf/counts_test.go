//go:build linux && cgo

package bpf_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCounts(t *testing.T) {
	c := kerneltest.LoadCounter(t, kerneltest.CounterOptions{})
	info, err := bpf.GetMapInfo(c.CountsFD())
	require.NoError(t, err)
	require.Equal(t, []int{4, 8}, []int{info.KeySize, info.ValueSize})

	require.Equal(t, syscall.ENOENT, c.Output(0, 24))
	values := make([]uint64, 8192) // as many CPUs as any kernel has
	require.NoError(t, bpf.MapLookup(c.CountsFD(), uint32(syscall.ENOENT), values))
	require.EqualValues(t, 1, values[0])
	require.NoError(t, bpf.MapLookup(c.CountsFD(), 0, values))
	require.Zero(t, values[0])
	requireErrno(t, bpf.MapLookup(c.CountsFD(), 128, values), "bpf(BPF_MAP_LOOKUP_ELEM)", syscall.ENOENT)

	n, err := bpf.RecursionMisses(c.FaultyFD())
	require.NoError(t, err)
	require.Zero(t, n)

	file, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(file)
	_, err = bpf.GetMapInfo(file)
	requireErrno(t, err, "bpf(BPF_OBJ_GET_INFO_BY_FD)", syscall.EINVAL)
	_, err = bpf.RecursionMisses(file)
	requireErrno(t, err, "bpf(BPF_OBJ_GET_INFO_BY_FD)", syscall.EINVAL)
}
