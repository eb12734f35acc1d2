//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// attr is that of perf events whose records have a time.
func attr() *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER5, Config: unix.PERF_COUNT_SW_BPF_OUTPUT,
		Sample: 1, Sample_type: unix.PERF_SAMPLE_RAW | unix.PERF_SAMPLE_TIME, Wakeup: 1,
		Bits: unix.PerfBitSampleIDAll | unix.PerfBitUseClockID, Clockid: unix.CLOCK_MONOTONIC,
	}
}

// online returns the CPUs that are online.
func online(t *testing.T) []int {
	t.Helper()
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	require.NotEmpty(t, cpus)
	return cpus
}

func newRaw(t *testing.T, e *kerneltest.Emitter, pages int, cpus []int) *libbpf.PerfBuffer {
	t.Helper()
	pb, err := libbpf.NewRaw(e.MapFD(), pages, attr(), cpus, cpus)
	require.NoError(t, err)
	return pb
}

func ring(t *testing.T, pb *libbpf.PerfBuffer, i int) *raw.Ring {
	t.Helper()
	meta, data, err := pb.Buffer(i)
	require.NoError(t, err)
	r, err := raw.New(meta, data, raw.LayoutRawTime)
	require.NoError(t, err)
	return r
}

// drain checks every record that a ring holds, frees them, and returns their payloads'
// descriptions.
func drain(t *testing.T, r *raw.Ring) (got []kerneltest.Payload) {
	t.Helper()
	head := r.Head()
	off := r.Tail()
	for off != head {
		var rec raw.Record
		r.Parse(off, head, &rec)
		require.Equal(t, raw.Sample, rec.Kind, "at %d: %v", off, rec.Fault)
		p, err := kerneltest.Check(new(raw.Single).Join(r, &rec).Bytes())
		require.NoError(t, err)
		got = append(got, p)
		off += rec.Size
	}
	r.SetTail(off)
	return got
}

// Events come out of the memory that Buffer returns, over several laps.
func TestReadEndToEnd(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := online(t)
	pb := newRaw(t, e, 2, cpus)
	defer pb.Free()
	require.Equal(t, len(cpus), pb.BufferCnt())
	require.Positive(t, pb.EpollFD())
	for i, cpu := range cpus {
		r := ring(t, pb, i)
		require.EqualValues(t, 2*os.Getpagesize(), r.Size())
		next := uint64(0)
		for size := 24; size < 1500; size += 61 {
			e.Emit(cpu, 3, size)
			got := drain(t, r)
			require.Len(t, got, 3)
			for _, p := range got {
				require.Equal(t, cpu, p.CPU)
				require.Equal(t, size, p.Size)
				require.Equal(t, next, p.Seq)
				next++
			}
		}
		require.Greater(t, r.Head(), 2*r.Size(), "the ring should have wrapped")
	}
}

// Rings come in the order of the CPUs asked for, not of their numbers.
func TestNewRawOrder(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := online(t)
	for i, j := 0, len(cpus)-1; i < j; i, j = i+1, j-1 {
		cpus[i], cpus[j] = cpus[j], cpus[i]
	}
	pb := newRaw(t, e, 1, cpus)
	defer pb.Free()
	for i, cpu := range cpus {
		e.Emit(cpu, i+1, 24)
	}
	for i, cpu := range cpus {
		got := drain(t, ring(t, pb, i))
		require.Len(t, got, i+1)
		require.Equal(t, cpu, got[0].CPU)
	}
}

// The epoll descriptor becomes readable when an event wakes.
func TestEpollFD(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := online(t)
	pb := newRaw(t, e, 1, cpus)
	defer pb.Free()
	ready := func(timeout int) int {
		fds := []unix.PollFd{{Fd: int32(pb.EpollFD()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, timeout)
		for errors.Is(err, syscall.EINTR) {
			n, err = unix.Poll(fds, timeout)
		}
		require.NoError(t, err)
		return n
	}
	require.Zero(t, ready(0))
	e.Emit(cpus[0], 1, 24)
	require.Equal(t, 1, ready(-1))
}

// An index is not a CPU number and libbpf is not to be trusted with a wrong one.
func TestIndexCheck(t *testing.T) {
	e := kerneltest.Load(t)
	pb := newRaw(t, e, 1, online(t))
	defer pb.Free()
	for _, i := range []int{-1, -1 << 31, -1 << 62, pb.BufferCnt(), pb.BufferCnt() + 1, 1 << 31, 1 << 32, 1<<32 + 1, 1<<63 - 1} {
		meta, data, err := pb.Buffer(i)
		require.ErrorIs(t, err, syscall.EINVAL, i)
		require.ErrorContains(t, err, "perf_buffer__buffer")
		require.Nil(t, meta)
		require.Nil(t, data)
		fd, err := pb.BufferFD(i)
		require.ErrorIs(t, err, syscall.EINVAL, i)
		require.ErrorContains(t, err, "perf_buffer__buffer_fd")
		require.Equal(t, -1, fd)
	}
	for i := range pb.BufferCnt() {
		fd, err := pb.BufferFD(i)
		require.NoError(t, err)
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		require.NoError(t, err)
		require.Equal(t, "anon_inode:[perf_event]", link)
	}
}
