//go:build linux && cgo

package libbpf_test

import (
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

// Outputs land in a ring as long as the map has its perf event, and only then.
func TestMapUpdateDelete(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := online(t)[0]
	pb := newRaw(t, e, 1, []int{cpu})
	defer pb.Free()
	r := ring(t, pb, 0, raw.LayoutRawTime)
	fd, err := pb.BufferFD(0)
	require.NoError(t, err)

	for range 3 {
		e.Emit(cpu, 2, 40)
		require.NoError(t, e.LastError(cpu))
		require.Len(t, drain(t, r), 2)

		require.NoError(t, libbpf.MapDelete(e.MapFD(), uint32(cpu)))
		head := r.Head()
		e.Emit(cpu, 5, 40)
		require.Equal(t, syscall.ENOENT, e.LastError(cpu))
		require.Equal(t, head, r.Head(), "something was written")

		require.NoError(t, libbpf.MapUpdate(e.MapFD(), uint32(cpu), uint32(fd)))
	}
	e.Emit(cpu, 1, 40)
	require.Equal(t, uint64(3*7), drain(t, r)[0].Seq)
	attempted, failed := e.Counts(cpu)
	require.EqualValues(t, 3*7+1, attempted)
	require.EqualValues(t, 3*5, failed, "outputs without a ring count as failed, and are not reported as lost")
}

// Free takes the rings out of the map.
func TestFree(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := online(t)
	for _, open := range []func() (*libbpf.PerfBuffer, error){
		func() (*libbpf.PerfBuffer, error) { return libbpf.New(e.MapFD(), 1) },
		func() (*libbpf.PerfBuffer, error) { return libbpf.NewRaw(e.MapFD(), 1, attr(), cpus, cpus) },
	} {
		pb, err := open()
		require.NoError(t, err)
		for _, cpu := range cpus {
			e.Emit(cpu, 1, 24)
			require.NoError(t, e.LastError(cpu))
		}
		pb.Free()
		for _, cpu := range cpus {
			e.Emit(cpu, 1, 24)
			require.Equal(t, syscall.ENOENT, e.LastError(cpu))
			require.ErrorIs(t, libbpf.MapDelete(e.MapFD(), uint32(cpu)), syscall.ENOENT)
		}
	}
}

func TestMapErrors(t *testing.T) {
	e := kerneltest.Load(t)
	pb := newRaw(t, e, 1, online(t))
	defer pb.Free()
	fd, err := pb.BufferFD(0)
	require.NoError(t, err)

	requireErrno(t, libbpf.MapUpdate(-1, 0, uint32(fd)), "bpf_map_update_elem", syscall.EBADF)
	requireErrno(t, libbpf.MapUpdate(e.MapFD(), 1<<30, uint32(fd)), "bpf_map_update_elem", syscall.E2BIG)
	requireErrno(t, libbpf.MapUpdate(e.MapFD(), 0, uint32(e.MapFD())), "bpf_map_update_elem", syscall.EBADF)
	requireErrno(t, libbpf.MapDelete(-1, 0), "bpf_map_delete_elem", syscall.EBADF)
	requireErrno(t, libbpf.MapDelete(e.MapFD(), 1<<30), "bpf_map_delete_elem", syscall.E2BIG)
	requireErrno(t, libbpf.MapDelete(e.ArrayFD(), 0), "bpf_map_delete_elem", syscall.EINVAL)
}

func TestGetMapInfo(t *testing.T) {
	e := kerneltest.Load(t)
	info, err := libbpf.GetMapInfo(e.MapFD())
	require.NoError(t, err)
	require.Positive(t, info.ID)
	require.Equal(t, libbpf.MapTypePerfEventArray, info.Type)
	require.Equal(t, "events", info.Name)
	require.GreaterOrEqual(t, info.MaxEntries, len(online(t)), "libbpf makes it one entry per possible CPU")

	array, err := libbpf.GetMapInfo(e.ArrayFD())
	require.NoError(t, err)
	require.NotEqual(t, info.ID, array.ID)
	require.Equal(t, libbpf.MapInfo{ID: array.ID, Type: 2, Name: "array", MaxEntries: 1}, array)

	_, err = libbpf.GetMapInfo(-1)
	requireErrno(t, err, "bpf_obj_get_info_by_fd", syscall.EBADF, syscall.EBADFD)
}
