//go:build linux && cgo

package libbpf_test

import (
	"encoding/binary"
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The maps in a map of maps are found by its keys, and opened.
func TestInnerMaps(t *testing.T) {
	kerneltest.Require(t)
	create := func(mapType, keySize, valueSize, entries, inner int) int {
		fd, err := libbpf.MapCreate(mapType, "test", keySize, valueSize, entries, inner)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	ring := create(libbpf.MapTypeRingbuf, 0, 0, 1<<16, 0)
	info, err := libbpf.GetMapInfo(ring)
	require.NoError(t, err)
	for _, mapType := range []int{libbpf.MapTypeArrayOfMaps, libbpf.MapTypeHashOfMaps} {
		outer := create(mapType, 4, 4, 3, ring)
		require.NoError(t, libbpf.MapUpdate(outer, 2, uint32(ring)))
		ids := map[uint32]int{}
		var key []byte
		for {
			next := make([]byte, 4)
			if err = libbpf.MapNextKey(outer, key, next); err != nil {
				break
			}
			key = next
			id, err := libbpf.MapInner(outer, key)
			if err != nil {
				requireErrno(t, err, "bpf_map_lookup_elem", syscall.ENOENT)
				continue
			}
			ids[binary.NativeEndian.Uint32(key)] = id
		}
		requireErrno(t, err, "bpf_map_get_next_key", syscall.ENOENT)
		require.Equal(t, map[uint32]int{2: info.ID}, ids)

		fd, err := libbpf.MapByID(ids[2])
		require.NoError(t, err)
		again, err := libbpf.GetMapInfo(fd)
		require.NoError(t, err)
		require.Equal(t, info, again)
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		require.Equal(t, unix.FD_CLOEXEC, flags)
		require.NoError(t, unix.Close(fd))
	}
	_, err = libbpf.MapByID(-1)
	requireErrno(t, err, "bpf_map_get_fd_by_id", syscall.ENOENT, syscall.EINVAL)
	_, err = libbpf.MapInner(-1, make([]byte, 4))
	requireErrno(t, err, "bpf_map_lookup_elem", syscall.EBADF)
}
