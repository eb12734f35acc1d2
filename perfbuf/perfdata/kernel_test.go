//go:build linux && cgo

package perfdata_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Events of the real kernel, recorded by Run and Drain, come back as they were, in the same order.
func TestRecordTheKernel(t *testing.T) {
	e := kerneltest.Load(t)
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{RingBytes: 4 << 20})
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Ordered(perfbuf.OrderOptions{})
	require.NoError(t, err)
	var all []perfbuf.Record
	path := record(t, perfdata.Options{}, func(rec *perfdata.Recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- rec.Run(ctx, s) }()
		for i := range 2000 {
			e.Emit(r.Rings()[i%len(r.Rings())].CPU(), 1+i%5, kerneltest.MinSize+i%200)
		}
		require.NoError(t, r.Flush())
		for rec.Stats().Samples == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, s.Drain(t.Context(), func(ev perfbuf.Event) error {
			all = append(all, ev.Record())
			return rec.Record(ev)
		}))
		require.EqualValues(t, 6000, rec.Stats().Samples+rec.Stats().Lost)
	})
	got, err := replayed(t, path, perfdata.ReplayOptions{}, &perfbuf.OrderOptions{})
	require.Equal(t, io.EOF, err)
	require.Len(t, samples(got), 6000)
	require.Equal(t, samples(all), samples(got)[6000-len(samples(all)):])
	for _, rec := range samples(got) {
		_, err := kerneltest.Check(rec.Data)
		require.NoError(t, err)
	}
	require.Contains(t, perf(t, "report", "-D", "-i", path), "PERF_RECORD_FINISHED_ROUND")
}

// A file of perf record, of events that BPF programs output: perf's own perf events are put into the map.
func TestReplayOfPerfRecord(t *testing.T) {
	e := kerneltest.Load(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	cmd := exec.Command(kerneltest.RequireCommand(t, "perf"), "record", "-q", "-a", "-e", "bpf-output/no-inherit=1,name=emitted/", "-o", path)
	require.NoError(t, cmd.Start())
	fds := perfFDs(t, cmd.Process.Pid)
	m, err := e.Module().GetMap("events")
	require.NoError(t, err)
	var cpus []int
	for _, fd := range fds {
		cpu := uint32(len(cpus))
		value := uint32(fd)
		if m.Update(unsafe.Pointer(&cpu), unsafe.Pointer(&value)) == nil { // the others are of perf's dummy event
			cpus = append(cpus, int(cpu))
		}
	}
	require.NotEmpty(t, cpus)
	for i := range 1000 {
		e.Emit(cpus[i%len(cpus)], 3, kerneltest.MinSize+i%100)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	cmd.Wait()
	got, err := replayed(t, path, perfdata.ReplayOptions{Event: "emitted"}, &perfbuf.OrderOptions{})
	require.Equal(t, io.EOF, err)
	require.Len(t, samples(got), 3000)
	for _, rec := range samples(got) {
		_, err := kerneltest.Check(rec.Data)
		require.NoError(t, err)
	}
}

// perfFDs are another process's perf events, in the order of their descriptors, once it has as many as two for each CPU.
func perfFDs(t *testing.T, pid int) (fds []int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(pidfd)
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	for {
		var numbers []int
		for n := range 1000 {
			if to, _ := os.Readlink(fmt.Sprint(dir, "/", n)); to == "anon_inode:[perf_event]" {
				numbers = append(numbers, n)
			}
		}
		if m, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)); len(numbers) > 0 && bytes.Contains(m, []byte("perf_event")) {
			time.Sleep(200 * time.Millisecond) // they are enabled next
			for _, n := range numbers {
				fd, err := unix.PidfdGetfd(pidfd, n, 0)
				require.NoError(t, err)
				fds = append(fds, fd)
			}
			return fds
		}
		time.Sleep(10 * time.Millisecond)
	}
}
