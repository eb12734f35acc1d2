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
	info, err := bpf.GetMapInfo(c.LanesFD())
	require.NoError(t, err)
	require.Equal(t, []int{4, 64 + 3*128}, []int{info.KeySize, info.ValueSize})

	require.Equal(t, syscall.ENOENT, c.Output(0, 24))
	values := make([]uint64, (64+3*128)/8)
	require.NoError(t, bpf.MapLookup(c.LanesFD(), 0, values))
	require.EqualValues(t, 1, values[8+9+1], "PERFBUF_NO_RING of the first lane")
	require.Zero(t, values[8], "written")
	requireErrno(t, bpf.MapLookup(c.LanesFD(), 512, values), "bpf(BPF_MAP_LOOKUP_ELEM)", syscall.ENOENT)

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
