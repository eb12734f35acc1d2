//go:build linux && cgo

package perfbuf_test

import (
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// freeze makes a map one that nobody but programs can change.
func freeze(t *testing.T, mapFD int) {
	t.Helper()
	attr := [4]uint32{uint32(mapFD)}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_FREEZE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	require.Zero(t, errno)
}

// Of a map that is frozen, Pause says each time that rings are still in it, Shutdown does not
// begin, and Close disables the rings in place: the kernel refuses later outputs, and counts
// earlier ones.
func TestKernelFrozenMap(t *testing.T) {
	for _, wakeup := range []perfbuf.Wakeup{{}, {Events: 1}} {
		t.Run(fmt.Sprint(wakeup), func(t *testing.T) {
			e := kerneltest.Load(t)
			leak.Check(t)
			r := open(t, e, perfbuf.Options{RingBytes: 64 << 10, Wakeup: wakeup})
			cpus := r.Options().CPUs
			if wakeup == (perfbuf.Wakeup{}) {
				armed(t, e, r)
			}
			freeze(t, e.MapFD())
			for range 2 {
				require.ErrorIs(t, r.Pause(), syscall.EPERM)
			}
			require.ErrorIs(t, perfbuf.StreamOf(t, r).Shutdown(t.Context(), nothing), syscall.EPERM)
			for _, cpu := range cpus {
				e.Emit(cpu, 10, 40)
			}
			n := 0
			require.NoError(t, perfbuf.StreamOf(t, r).ForEach(func(perfbuf.Event) error {
				if n++; n == 3 {
					require.NoError(t, r.Close())
					// Though the rings are still mapped
					requireUnhooked(t, e, cpus, syscall.EOPNOTSUPP)
					return perfbuf.ErrStop
				}
				return nil
			}))
			<-r.Done()
			requireUnhooked(t, e, cpus, syscall.EOPNOTSUPP)
			s := r.Stats()
			require.ErrorIs(t, s.CloseErr, syscall.EPERM)
			require.ErrorContains(t, s.CloseErr, fmt.Sprintf("the map's entry of CPU %d: bpf_map_delete_elem", cpus[0]))
			written := uint64(0)
			for _, cpu := range cpus {
				attempted, failed := e.Counts(cpu)
				written += attempted - failed
			}
			require.Equal(t, written, s.Total().Samples+s.Total().Dropped)
		})
	}
}

// armed puts the doorbells of all rings into the map.
func armed(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader) {
	t.Helper()
	woken := background(t, func() { require.NoError(t, perfbuf.StreamOf(t, r).Wait(t.Context())) })
	eventually(t, "armed", func() bool { return r.Stats().Doorbell.Armed == len(r.Rings()) })
	e.Emit(r.Rings()[0].CPU(), 1, 24)
	<-woken
}

// An Open that fails midway has taken away entries of another reader that it has come to, and
// leaves the others alone.
func TestKernelFailedOpenLeavesOthersAlone(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := fewCPUs(t, e)
	leak.Check(t)
	for i := range cpus {
		first := open(t, e, perfbuf.Options{CPUs: cpus})
		var err error
		own := len(cpus) + i // updates of the reader's own map before
		kerneltest.Fail(t, callUpdate, syscall.ENOMEM, only(own+i+1), func() { _, err = perfbuf.Open(e.MapFD(), perfbuf.Options{CPUs: cpus}) })
		require.ErrorIs(t, err, syscall.ENOMEM)
		requireUnhooked(t, e, cpus[:i+1], syscall.ENOENT)
		for _, cpu := range cpus[i+1:] {
			e.Emit(cpu, 1, 24)
			require.NoError(t, e.LastError(cpu), "CPU %d, after the failure at CPU %d", cpu, cpus[i])
		}
		require.NoError(t, first.Close())
		require.NoError(t, first.Stats().CloseErr, "an entry that is empty already is no failure")
	}
}

// Nor does a reader that is paused take away entries that another one has got meanwhile: it has
// none.
func TestKernelPausedReaderLeavesOthersAlone(t *testing.T) {
	e := kerneltest.Load(t)
	leak.Check(t)
	paused := open(t, e, perfbuf.Options{})
	require.NoError(t, paused.Pause())
	r := open(t, e, perfbuf.Options{})
	require.Zero(t, r.Stats().ReplacedEntries)
	require.NoError(t, paused.Pause())
	require.NoError(t, paused.Close())
	require.NoError(t, paused.Stats().CloseErr)
	for _, ring := range r.Rings() {
		e.Emit(ring.CPU(), 1, 24)
		require.NoError(t, e.LastError(ring.CPU()))
	}
	require.NoError(t, r.Close())
	requireUnhooked(t, e, r.Options().CPUs, syscall.ENOENT)
}

// New perf events of a ring are taken out as the old ones are.
func TestKernelReopenedIsTakenOut(t *testing.T) {
	e := kerneltest.Load(t)
	leak.Check(t)
	r := open(t, e, perfbuf.Options{})
	require.NoError(t, r.Pause())
	for i := range r.Rings() {
		require.NoError(t, r.Reopen(i))
	}
	require.NoError(t, r.Resume())
	for i := range r.Rings() {
		require.NoError(t, r.Reopen(i))
	}
	require.NoError(t, r.Close())
	require.NoError(t, r.Stats().CloseErr)
	requireUnhooked(t, e, r.Options().CPUs, syscall.ENOENT)
}

// Open releases a map for Options.Outputs that it refuses, of any size.
func TestKernelRefusedOutputsAreClosed(t *testing.T) {
	e := kerneltest.Load(t)
	const cgroupStorage = 19 // BPF_MAP_TYPE_CGROUP_STORAGE, which has no entries
	fd, err := libbpf.MapCreate(cgroupStorage, "made_by_a_test", 8, 8, 0, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	leak.Check(t)
	require.ErrorContains(t, openFails(t, e.MapFD(), perfbuf.Options{Outputs: perfbuf.OutputCounts{MapFD: fd}}), "and 0 entries")
}
