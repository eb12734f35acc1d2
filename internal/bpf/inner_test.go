//go:build linux && cgo

package bpf_test

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The maps in a map of maps are found by its keys, and opened.
func TestInnerMaps(t *testing.T) {
	kerneltest.Require(t)
	create := func(mapType, keySize, valueSize, entries, inner int) int {
		fd, err := bpf.MapCreate(mapType, "test", keySize, valueSize, entries, inner)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	ring := create(bpf.MapTypeRingbuf, 0, 0, 1<<16, 0)
	info, err := bpf.GetMapInfo(ring)
	require.NoError(t, err)
	for _, mapType := range []int{bpf.MapTypeArrayOfMaps, bpf.MapTypeHashOfMaps} {
		outer := create(mapType, 4, 4, 3, ring)
		require.NoError(t, bpf.MapUpdate(outer, 2, uint32(ring)))
		ids := map[uint32]int{}
		var key []byte
		for {
			next := make([]byte, 4)
			if err = bpf.MapNextKey(outer, key, next); err != nil {
				break
			}
			key = next
			id, err := bpf.MapInner(outer, key)
			if err != nil {
				requireErrno(t, err, "bpf(BPF_MAP_LOOKUP_ELEM)", syscall.ENOENT)
				continue
			}
			ids[binary.NativeEndian.Uint32(key)] = id
		}
		requireErrno(t, err, "bpf(BPF_MAP_GET_NEXT_KEY)", syscall.ENOENT)
		require.Equal(t, map[uint32]int{2: info.ID}, ids)

		fd, err := bpf.MapByID(ids[2])
		require.NoError(t, err)
		again, err := bpf.GetMapInfo(fd)
		require.NoError(t, err)
		require.Equal(t, info, again)
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		require.Equal(t, unix.FD_CLOEXEC, flags)
		require.NoError(t, unix.Close(fd))
	}
	_, err = bpf.MapByID(-1)
	requireErrno(t, err, "bpf(BPF_MAP_GET_FD_BY_ID)", syscall.ENOENT, syscall.EINVAL)
	_, err = bpf.MapInner(-1, make([]byte, 4))
	requireErrno(t, err, "bpf(BPF_MAP_LOOKUP_ELEM)", syscall.EBADF)
}
