//go:build linux && cgo

package bpf_test

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An array of maps takes maps like the one it was made with, and no others.
func TestMapCreate(t *testing.T) {
	kerneltest.Require(t)
	create := func(mapType, entries, inner int) int {
		fd, err := bpf.MapCreate(mapType, "test", 4, 4, entries, inner)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	inner := create(bpf.MapTypeArray, 1, 0)
	outer := create(bpf.MapTypeArrayOfMaps, 2, inner)
	info, err := bpf.GetMapInfo(outer)
	require.NoError(t, err)
	require.Equal(t, bpf.MapInfo{ID: info.ID, Type: bpf.MapTypeArrayOfMaps, Name: "test", KeySize: 4, ValueSize: 4, MaxEntries: 2}, info)
	flags, err := unix.FcntlInt(uintptr(outer), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.Equal(t, unix.FD_CLOEXEC, flags)

	require.NoError(t, bpf.MapUpdate(outer, 1, uint32(inner)))
	requireErrno(t, bpf.MapUpdate(outer, 0, uint32(outer)), "bpf(BPF_MAP_UPDATE_ELEM)", syscall.EINVAL)
	_, err = bpf.MapCreate(bpf.MapTypeArrayOfMaps, "test", 4, 4, 1, 0)
	requireErrno(t, err, "bpf(BPF_MAP_CREATE)", syscall.EBADF, syscall.EINVAL)
	_, err = bpf.MapCreate(bpf.MapTypeArray, "test", 4, 4, 0, 0)
	requireErrno(t, err, "bpf(BPF_MAP_CREATE)", syscall.EINVAL)
}

func TestMapErrors(t *testing.T) {
	e := kerneltest.Load(t)
	event, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER5, Config: unix.PERF_COUNT_SW_BPF_OUTPUT}, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(event)

	requireErrno(t, bpf.MapUpdate(-1, 0, uint32(event)), "bpf(BPF_MAP_UPDATE_ELEM)", syscall.EBADF)
	requireErrno(t, bpf.MapUpdate(e.MapFD(), 1<<30, uint32(event)), "bpf(BPF_MAP_UPDATE_ELEM)", syscall.E2BIG)
	requireErrno(t, bpf.MapUpdate(e.MapFD(), 0, uint32(e.MapFD())), "bpf(BPF_MAP_UPDATE_ELEM)", syscall.EBADF)
	requireErrno(t, bpf.MapDelete(-1, 0), "bpf(BPF_MAP_DELETE_ELEM)", syscall.EBADF)
	requireErrno(t, bpf.MapDelete(e.MapFD(), 1<<30), "bpf(BPF_MAP_DELETE_ELEM)", syscall.E2BIG)
	requireErrno(t, bpf.MapDelete(e.ArrayFD(), 0), "bpf(BPF_MAP_DELETE_ELEM)", syscall.EINVAL)
}

func TestGetMapInfo(t *testing.T) {
	e := kerneltest.Load(t)
	info, err := bpf.GetMapInfo(e.MapFD())
	require.NoError(t, err)
	require.Positive(t, info.ID)
	require.Equal(t, bpf.MapTypePerfEventArray, info.Type)
	require.Equal(t, "events", info.Name)
	require.Positive(t, info.MaxEntries)

	array, err := bpf.GetMapInfo(e.ArrayFD())
	require.NoError(t, err)
	require.NotEqual(t, info.ID, array.ID)
	require.Equal(t, bpf.MapInfo{ID: array.ID, Type: 2, Name: "array", KeySize: 4, ValueSize: 8, MaxEntries: 1}, array)

	_, err = bpf.GetMapInfo(-1)
	requireErrno(t, err, "bpf(BPF_OBJ_GET_INFO_BY_FD)", syscall.EBADF, syscall.EBADFD)
}
