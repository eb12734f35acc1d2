//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf_test

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// Outputs land in a ring as long as the map has its perf event, and only then.
func TestMapUpdateDelete(t *testing.T) {
	e := kerneltest.Load(t)
	cpu := online(t)[0]
	pb := newRaw(t, e, 1, []int{cpu})
	defer pb.Free()
	r := ring(t, pb, 0)
	fd, err := pb.BufferFD(0)
	require.NoError(t, err)

	for range 3 {
		e.Emit(cpu, 2, 40)
		require.NoError(t, e.LastError(cpu))
		require.Len(t, drain(t, r), 2)

		require.NoError(t, bpf.MapDelete(e.MapFD(), uint32(cpu)))
		head := r.Head()
		e.Emit(cpu, 5, 40)
		require.Equal(t, syscall.ENOENT, e.LastError(cpu))
		require.Equal(t, head, r.Head(), "something was written")

		require.NoError(t, bpf.MapUpdate(e.MapFD(), uint32(cpu), uint32(fd)))
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
	pb := newRaw(t, e, 1, cpus)
	for _, cpu := range cpus {
		e.Emit(cpu, 1, 24)
		require.NoError(t, e.LastError(cpu))
	}
	pb.Free()
	for _, cpu := range cpus {
		e.Emit(cpu, 1, 24)
		require.Equal(t, syscall.ENOENT, e.LastError(cpu))
		require.ErrorIs(t, bpf.MapDelete(e.MapFD(), uint32(cpu)), syscall.ENOENT)
	}
}
