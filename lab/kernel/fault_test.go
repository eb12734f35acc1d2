//go:build linux && cgo

package kernel_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/internal/perfevent"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	callUpdate    = kerneltest.CallBPF(unix.BPF_MAP_UPDATE_ELEM, "BPF_MAP_UPDATE_ELEM")
	callDelete    = kerneltest.CallBPF(unix.BPF_MAP_DELETE_ELEM, "BPF_MAP_DELETE_ELEM")
	callCreate    = kerneltest.CallBPF(unix.BPF_MAP_CREATE, "BPF_MAP_CREATE")
	callInfo      = kerneltest.CallBPF(unix.BPF_OBJ_GET_INFO_BY_FD, "BPF_OBJ_GET_INFO_BY_FD")
	callEnable    = kerneltest.CallIoctl(unix.PERF_EVENT_IOC_ENABLE, "PERF_EVENT_IOC_ENABLE")
	callDisable   = kerneltest.CallIoctl(unix.PERF_EVENT_IOC_DISABLE, "PERF_EVENT_IOC_DISABLE")
	callSetOutput = kerneltest.CallIoctl(unix.PERF_EVENT_IOC_SET_OUTPUT, "PERF_EVENT_IOC_SET_OUTPUT")
)

func only(k int) func(int) bool { return func(n int) bool { return n == k } }
func all(int) bool              { return true }

// fewCPUs are the first of those online, as many as make a difference.
func fewCPUs(t *testing.T, e *kerneltest.Emitter) []int {
	t.Helper()
	r := open(t, e, perfbuf.Options{})
	require.NoError(t, r.Close())
	cpus := r.Options().CPUs
	return cpus[:min(3, len(cpus))]
}

// Whichever of its system calls fails, Open says which, or does without it and says that, and
// leaves nothing behind.
func TestKernelOpenFaults(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := fewCPUs(t, e)
	perCPU := func(text string) (texts []string) {
		for _, cpu := range cpus {
			texts = append(texts, fmt.Sprintf(text, cpu))
		}
		return texts
	}
	// Libbpf makes more calls, and has its own words.
	event, mmap, poll := "perf_event_open for CPU %d", "mmap for CPU %d", "epoll_ctl for CPU %d"
	var info, enable, set []string
	epoll := []string{"epoll_create1"}
	if libbpf.Available {
		event, mmap, poll = "failed to open perf buffer event on cpu #%d", "failed to mmap perf buffer on cpu #%d", "failed to epoll_ctl cpu #%d"
		info, epoll = []string{"failed to get map info"}, []string{"failed to create epoll instance"}
		enable, set = perCPU("failed to enable perf buffer event on cpu #%d"), perCPU("failed to set cpu #%d")
	}
	const without = "without: "                 // Open succeeds, and its Stats say so
	const byRuntime = "in the runtime poller: " // which hides the errno
	for _, c := range []struct {
		call  kerneltest.Call
		errno syscall.Errno
		steps []string // what the error of the first such call, the second and so on says
	}{
		{kerneltest.CallDup, syscall.EMFILE, []string{"map fd"}},
		{callInfo, syscall.EPERM, append([]string{"bpf(BPF_OBJ_GET_INFO_BY_FD)"}, info...)},
		{callCreate, syscall.ENOMEM, []string{"a map of the reader's own: bpf(BPF_MAP_CREATE)"}}, // EPERM is tried again before Linux 5.11, with a raised RLIMIT_MEMLOCK
		{kerneltest.CallPerfEventOpen, syscall.EACCES, slices.Concat(
			perCPU(event), perCPU(without+"perf_event_open of another perf event of CPU %d"))},
		{kerneltest.CallMmapFile, syscall.EPERM, perCPU(mmap)},
		{callEnable, syscall.EIO, enable},
		{callSetOutput, syscall.EIO, perCPU(without + "PERF_EVENT_IOC_SET_OUTPUT on CPU %d")},
		{callUpdate, syscall.ENOMEM, slices.Concat(set, perCPU("the map's entry of CPU %d: bpf(BPF_MAP_UPDATE_ELEM)"))},
		{kerneltest.CallEpollCreate, syscall.EMFILE, append(epoll, "epoll_create1")},
		{kerneltest.CallEpollCtl, syscall.ENOSPC, append(perCPU(poll), byRuntime, "epoll_ctl")},
		{kerneltest.CallEventfd, syscall.EMFILE, []string{"eventfd"}},
		{kerneltest.CallSocket, syscall.EMFILE, []string{without + "no netlink socket for uevents"}},
		{kerneltest.CallBind, syscall.EPERM, []string{without + "no netlink socket for uevents"}},
		{callDelete, syscall.EPERM, nil}, // it shows whether there was an entry before
	} {
		t.Run(c.call.String(), func(t *testing.T) {
			leak.Check(t)
			opts := perfbuf.Options{CPUs: cpus, RingBytes: 64 << 10}
			steps := c.steps
			for k := 1; ; k++ {
				var r *perfbuf.Reader
				var err error
				calls := kerneltest.Fail(t, c.call, c.errno, only(k), func() { r, err = perfbuf.Open(e.MapFD(), opts) })
				said := fmt.Sprint(err)
				if err == nil {
					requireReads(t, e, r)
					s := r.Stats()
					said = fmt.Sprint(s.Doorbell.Err, s.Hotplug.Err)
					require.NoError(t, r.Close())
				} else {
					require.Nil(t, r)
					if !strings.Contains(said, byRuntime) {
						require.ErrorIs(t, err, c.errno)
					}
					require.ErrorContains(t, err, "perfbuf.Open: ")
				}
				if calls < k {
					require.NoError(t, err)
					require.Empty(t, steps, "of %d calls", calls)
					break
				}
				if err != nil || strings.Contains(said, c.errno.Error()) {
					require.NotEmpty(t, steps, said)
					step, goesOn := strings.CutPrefix(steps[0], without)
					require.Contains(t, said, step)
					require.Equal(t, goesOn, err == nil, said)
					steps = steps[1:]
				} // else it was a call that nothing depends on, of the runtime perhaps

				requireUnhooked(t, e, cpus, syscall.ENOENT)
				_, err = unix.FcntlInt(uintptr(e.MapFD()), unix.F_GETFD, 0)
				require.NoError(t, err, "the caller's own")
				next := open(t, e, opts)
				requireReads(t, e, next)
				require.NoError(t, next.Close())
			}
		})
	}
}

// requireUnhooked requires that outputs on all CPUs fail so.
func requireUnhooked(t *testing.T, e *kerneltest.Emitter, cpus []int, errno syscall.Errno) {
	t.Helper()
	for _, cpu := range cpus {
		e.Emit(cpu, 1, 24)
		require.Equal(t, errno, e.LastError(cpu), "CPU %d", cpu)
	}
}

// Whichever of its system calls fails, Close lets go of everything. What it cannot take out of the
// map is in nobody's way there: outputs go nowhere, and the next reader takes the places.
func TestKernelCloseFaults(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := fewCPUs(t, e)
	for _, c := range []struct {
		call  kerneltest.Call
		which func(n int) bool
		stay  int // entries of the map
	}{
		{callDelete, only(1), 1},
		{callDelete, func(n int) bool { return n <= len(cpus) }, len(cpus)},
		{callDelete, all, len(cpus)},
		{callDisable, all, 0},
	} {
		for _, wakeup := range []perfbuf.Wakeup{{}, {Events: 1}} {
			t.Run(fmt.Sprint(c.call, c.stay, wakeup), func(t *testing.T) {
				leak.Check(t)
				opts := perfbuf.Options{CPUs: cpus, RingBytes: 64 << 10, Wakeup: wakeup}
				r := open(t, e, opts)
				requireReads(t, e, r)
				if wakeup == (perfbuf.Wakeup{}) { // the map holds the doorbells
					s := unordered(t, r)
					woken := background(t, func() { require.NoError(t, s.Wait(t.Context())) })
					for r.Stats().Doorbell.Armed < len(cpus) {
						runtime.Gosched()
					}
					e.Emit(cpus[0], 1, 24)
					<-woken
				} else {
					e.Emit(cpus[0], 1, 24)
				}
				calls := kerneltest.Fail(t, c.call, syscall.EPERM, c.which, func() { r.Close() })
				require.Equal(t, libbpf.Available || c.call != callDisable, calls > 0, "%d calls", calls)
				<-r.Done()
				require.EqualValues(t, 1, r.Stats().Rings[0].Dropped)
				require.Equal(t, c.stay > 0, errors.Is(r.Stats().CloseErr, syscall.EPERM))
				for i, cpu := range cpus {
					e.Emit(cpu, 1, 24)
					if i >= c.stay {
						require.Equal(t, syscall.ENOENT, e.LastError(cpu))
					} else {
						require.Equal(t, syscall.EOPNOTSUPP, e.LastError(cpu))
					}
				}
				next := open(t, e, opts)
				require.Equal(t, c.stay, next.Stats().ReplacedEntries)
				requireReads(t, e, next)
				require.NoError(t, next.Close())
				requireUnhooked(t, e, cpus, syscall.ENOENT)
			})
		}
	}
}

// What cannot be paused or resumed is named, the rest is, and the next call mends it.
func TestKernelPauseFaults(t *testing.T) {
	e := kerneltest.Load(t)
	cpus := fewCPUs(t, e)
	leak.Check(t)
	r := open(t, e, perfbuf.Options{CPUs: cpus, RingBytes: 64 << 10})
	outputs := func(want func(cpu int) error) {
		t.Helper()
		for _, cpu := range cpus {
			e.Emit(cpu, 1, 24)
			require.Equal(t, want(cpu), e.LastError(cpu), "CPU %d", cpu)
		}
	}
	for i, odd := range cpus {
		name := fmt.Sprintf("the map's entry of CPU %d: ", odd)
		var err error
		kerneltest.Fail(t, callDelete, syscall.EPERM, only(i+1), func() { err = r.Pause() })
		require.ErrorContains(t, err, "perfbuf.Pause: "+name+"bpf(BPF_MAP_DELETE_ELEM)")
		require.ErrorIs(t, err, syscall.EPERM)
		outputs(func(cpu int) error {
			if cpu == odd {
				return nil
			}
			return syscall.ENOENT
		})
		require.NoError(t, r.Resume())
		outputs(func(int) error { return nil })
		require.NoError(t, r.Pause())
		outputs(func(int) error { return syscall.ENOENT })
		// Every second update is of the reader's own map
		kerneltest.Fail(t, callUpdate, syscall.EPERM, only(2*i+1), func() { err = r.Resume() })
		require.ErrorContains(t, err, "perfbuf.Resume: "+name+"bpf(BPF_MAP_UPDATE_ELEM)")
		require.ErrorIs(t, err, syscall.EPERM)
		outputs(func(cpu int) error {
			if cpu == odd {
				return syscall.ENOENT
			}
			return nil
		})
		require.NoError(t, r.Resume())
		outputs(func(int) error { return nil })
	}
	require.NoError(t, r.Close())
}

// A stream that cannot have a map in a map for its barriers has another way to wait, and keeps
// nothing of the first.
func TestKernelOrderedFaults(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "or membarrier does not wait")
	e := kerneltest.Load(t)
	leak.Check(t)
	r := open(t, e, perfbuf.Options{RingBytes: 64 << 10})
	for _, c := range []struct {
		call kerneltest.Call
		k    int
	}{{callCreate, 1}, {callCreate, 2}, {callUpdate, 1}} {
		var s *perfbuf.Stream
		var err error
		require.Equal(t, min(c.k, 2), kerneltest.Fail(t, c.call, syscall.EPERM, only(c.k), func() {
			s, err = r.Stream(perfbuf.StreamOptions{Barriers: perfbuf.MapInMap | perfbuf.Membarrier})
		}))
		require.NoError(t, err)
		require.Equal(t, "membarrier", r.Stats().Barrier.Provider)
		e.Emit(r.Rings()[0].CPU(), 3, 24)
		n := 0
		require.NoError(t, s.Run(t.Context(), func(perfbuf.Event) error {
			if n++; n == 3 {
				return perfbuf.ErrStop
			}
			return nil
		}))
		require.NoError(t, s.Close())
	}
	require.NoError(t, r.Close())
}

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
			stream := unordered(t, r)
			require.ErrorIs(t, stream.Shutdown(t.Context(), nothing), syscall.EPERM)
			e.EmitOn(cpus, 10, 40)
			n := 0
			require.NoError(t, stream.ForEach(func(perfbuf.Event) error {
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
			require.ErrorContains(t, s.CloseErr, fmt.Sprintf("the map's entry of CPU %d: bpf(BPF_MAP_DELETE_ELEM)", cpus[0]))
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
	s := unordered(t, r)
	defer s.Close()
	woken := background(t, func() { require.NoError(t, s.Wait(t.Context())) })
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
		own := i // updates of the reader's own map before
		if libbpf.Available {
			own += len(cpus)
		}
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
	r, plug := openPlug(t, perfevent.Map{FD: e.MapFD()}, perfbuf.Options{})
	require.NoError(t, r.Pause())
	for i := range r.Rings() {
		plug.reopen(t, i)
	}
	require.NoError(t, r.Resume())
	for i := range r.Rings() {
		plug.reopen(t, i)
	}
	require.NoError(t, r.Close())
	require.NoError(t, r.Stats().CloseErr)
	requireUnhooked(t, e, r.Options().CPUs, syscall.ENOENT)
}

// Open releases a map for Options.LanesFD that it refuses, of any size.
func TestKernelRefusedOutputsAreClosed(t *testing.T) {
	e := kerneltest.Load(t)
	const cgroupStorage = 19 // BPF_MAP_TYPE_CGROUP_STORAGE, which has no entries
	fd, err := bpf.MapCreate(cgroupStorage, "made_by_a_test", 8, 8, 0, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	leak.Check(t)
	require.ErrorContains(t, openFails(t, e.MapFD(), perfbuf.Options{LanesFD: fd}), "PERFBUF_LANES")
}
