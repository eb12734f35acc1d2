//go:build linux && cgo

package libbpf_test

import (
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An array of maps takes maps like the one it was made with, and no others.
func TestMapCreate(t *testing.T) {
	kerneltest.Require(t)
	create := func(mapType, entries, inner int) int {
		fd, err := libbpf.MapCreate(mapType, "test", 4, 4, entries, inner)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	inner := create(libbpf.MapTypeArray, 1, 0)
	outer := create(libbpf.MapTypeArrayOfMaps, 2, inner)
	info, err := libbpf.GetMapInfo(outer)
	require.NoError(t, err)
	require.Equal(t, libbpf.MapInfo{ID: info.ID, Type: libbpf.MapTypeArrayOfMaps, Name: "test", MaxEntries: 2}, info)
	flags, err := unix.FcntlInt(uintptr(outer), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.Equal(t, unix.FD_CLOEXEC, flags)

	require.NoError(t, libbpf.MapUpdate(outer, 1, uint32(inner)))
	requireErrno(t, libbpf.MapUpdate(outer, 0, uint32(outer)), "bpf_map_update_elem", syscall.EINVAL)
	_, err = libbpf.MapCreate(libbpf.MapTypeArrayOfMaps, "test", 4, 4, 1, 0)
	requireErrno(t, err, "bpf_map_create", syscall.EBADF, syscall.EINVAL)
	_, err = libbpf.MapCreate(libbpf.MapTypeArray, "test", 4, 4, 0, 0)
	requireErrno(t, err, "bpf_map_create", syscall.EINVAL)
}
