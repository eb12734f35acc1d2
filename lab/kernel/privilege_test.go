//go:build linux && cgo

package kernel_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// justEnough is what Open and exact streams take.
var justEnough = []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}

const paranoidFile = "/proc/sys/kernel/perf_event_paranoid"

func paranoid(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile(paranoidFile)
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	return n
}

// setParanoid sets the level until the test ends. That is for machines that are there for tests.
func setParanoid(t *testing.T, level int) {
	t.Helper()
	before := strconv.Itoa(paranoid(t))
	require.NoError(t, os.WriteFile(paranoidFile, fmt.Append(nil, level), 0))
	t.Cleanup(func() { require.NoError(t, os.WriteFile(paranoidFile, []byte(before), 0)) })
}

// relax is for a test in which CAP_PERFMON is to be enough: above level 2, which only Debian's and
// Ubuntu's kernels know, it is not.
func relax(t *testing.T) {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		return
	}
	kerneltest.RequireRoot(t)
	switch {
	case paranoid(t) <= 2:
	case os.Getenv(kerneltest.RequireEnv) == "1":
		setParanoid(t, 2)
	default:
		t.Skip("kernel.perf_event_paranoid is above 2: CAP_PERFMON may not be enough")
	}
}

// openChild is Open in a child.
func openChild(t *testing.T, opts perfbuf.Options) *perfbuf.Reader {
	t.Helper()
	r, err := perfbuf.Open(childFD, opts)
	require.NoError(t, err)
	return r
}

// The two capabilities are enough for all that the default does: the doorbell, which opens more
// perf events and changes the map time and again, Pause, Resume, Flush, and exact streams.
func TestKernelPrivilegedNobody(t *testing.T) {
	relax(t)
	asSomebody(t, identity{caps: justEnough}, func(t *testing.T, e *remote) {
		r := openChild(t, perfbuf.Options{RingBytes: 64 << 10})
		defer r.Close()
		require.Zero(t, r.Options().Wakeup.Bytes, "no doorbell: %v", r.Stats().Doorbell.Err)
		useReader(t, e, r)
		s := r.Stats()
		require.NoError(t, s.Doorbell.Err)
		require.Positive(t, s.Doorbell.Arms)
		if s.Barrier.Provider != "nest-levels" { // which comes first, where the kernel has it
			require.Equal(t, "map-in-map", s.Barrier.Provider)
			require.ErrorContains(t, s.Barrier.Refused, "bind-mount: mount(/proc/self on /proc/version): operation not permitted: it takes CAP_SYS_ADMIN")
		}
		require.Positive(t, s.Barrier.Cost)

		newer := openChild(t, perfbuf.Options{})
		defer newer.Close()
		require.NoError(t, r.Close())
		e.emit(newer.Rings()[0].CPU(), 3)
		require.Len(t, collect(t, unordered(t, newer)), 3, "the older reader has left its entries alone")
	})
}

// useReader reads a parent's outputs in all ways that need the kernel's permission.
func useReader(t *testing.T, e *remote, r *perfbuf.Reader) {
	t.Helper()
	for _, ring := range r.Rings() {
		e.emit(ring.CPU(), 3)
	}
	got, s := 0, unordered(t, r)
	for got < 3*len(r.Rings()) {
		require.NoError(t, s.Wait(t.Context()))
		got += len(collect(t, s))
	}
	// A Wait arms quiet rings one by one. The first event then wakes the reader.
	cpu := r.Rings()[0].CPU()
	waited := make(chan error, 1)
	go func() { waited <- s.Wait(t.Context()) }()
	for r.Stats().Doorbell.Armed < len(r.Rings()) {
		runtime.Gosched()
	}
	e.emit(cpu, 1)
	require.NoError(t, <-waited)
	require.Len(t, collect(t, s), 1)

	require.NoError(t, r.Pause())
	e.emit(cpu, 1)
	require.NoError(t, r.Resume())
	e.emit(cpu, 2)
	require.Len(t, collect(t, s), 2, "and none while it was paused")

	require.NoError(t, s.Close())
	s = exact(t, r)
	useStream(t, e, r, s)
	require.NoError(t, s.Drain(t.Context(), func(perfbuf.Event) error { return nil }))
	require.NoError(t, s.Close())
}

// useStream reads a parent's outputs, in order.
func useStream(t *testing.T, e *remote, r *perfbuf.Reader, s *perfbuf.Stream) {
	t.Helper()
	for range 5 {
		for _, ring := range r.Rings() {
			e.emit(ring.CPU(), 1)
		}
	}
	last, n := uint64(0), 0
	for rec, err := range s.Records(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, perfbuf.KindSample, rec.Kind)
		require.False(t, rec.Late)
		require.GreaterOrEqual(t, rec.Time, last)
		last = rec.Time
		if n++; n == 5*len(r.Rings()) {
			break
		}
	}
}

// Rings larger than every user's allowance need room under the limits on locked memory, or
// CAP_IPC_LOCK.
func TestKernelLockedMemory(t *testing.T) {
	relax(t)
	large := perfbuf.Options{RingBytes: 4 << 20}
	const aMegabyte = 1 << 20 // not less: before Linux 5.11 BPF maps count too
	t.Run("without", func(t *testing.T) {
		asSomebody(t, identity{caps: justEnough}, func(t *testing.T, _ *remote) {
			r := openChild(t, perfbuf.Options{RingBytes: 64 << 10})
			require.NoError(t, r.Close())
			<-r.Done() // the memory is free again
			if paranoid(t) == -1 {
				t.Skip("kernel.perf_event_paranoid is -1: there is no limit")
			}
			var limit unix.Rlimit
			require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit))
			require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: aMegabyte, Max: limit.Max}))
			p := requireRefused(t, large, []string{"CAP_IPC_LOCK"}, "4096 KiB per CPU", "perf_event_mlock_kb", "RLIMIT_MEMLOCK, which is 1024 KiB")
			require.Positive(t, p.MlockKB)
			r, err := perfbuf.Open(childFD, perfbuf.Options{RingBytes: 64 << 10})
			require.NoError(t, err, "perf_event_mlock_kb grants that much without a limit")
			require.NoError(t, r.Close())

			if limit.Max > uint64(len(r.Options().CPUs))*8<<20 { // the fix that the error names
				require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit.Max, Max: limit.Max}))
				r, err := perfbuf.Open(childFD, large)
				require.NoError(t, err)
				require.NoError(t, r.Close())
			}
		})
	})
	t.Run("with CAP_IPC_LOCK", func(t *testing.T) {
		asSomebody(t, identity{caps: append([]uintptr{unix.CAP_IPC_LOCK}, justEnough...)}, func(t *testing.T, _ *remote) {
			require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: aMegabyte, Max: aMegabyte}))
			require.NoError(t, openChild(t, large).Close())
		})
	})
}

// Each level of kernel.perf_event_paranoid, with CAP_PERFMON and without.
func TestKernelParanoid(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		kerneltest.RequireRoot(t)
		if os.Getenv(kerneltest.RequireEnv) != "1" {
			t.Skip("changes kernel.perf_event_paranoid for a moment, so it runs only where " + kerneltest.RequireEnv + "=1 says that the machine is for tests")
		}
	}
	for level := -1; level <= 4; level++ {
		for _, monitors := range []bool{true, false} {
			t.Run(fmt.Sprintf("level %d, CAP_PERFMON %v", level, monitors), func(t *testing.T) {
				caps := []uintptr{unix.CAP_BPF}
				if monitors {
					caps = justEnough
				}
				if os.Getenv(childEnv) == "" {
					setParanoid(t, level)
				}
				asSomebody(t, identity{caps: caps}, func(t *testing.T, e *remote) {
					opts := perfbuf.Options{RingBytes: 64 << 10}
					switch {
					case monitors && level <= 2, !monitors && level <= 0:
						r, err := perfbuf.Open(childFD, opts)
						require.NoError(t, err)
						defer r.Close()
						useReader(t, e, r)
					case monitors: // to Linux this is level 2, to Debian and Ubuntu it is not
						if r, err := perfbuf.Open(childFD, opts); err == nil {
							require.NoError(t, r.Close())
							return
						}
						requireRefused(t, opts, []string{"CAP_SYS_ADMIN"}, "sysctl kernel.perf_event_paranoid=2")
					default:
						requireRefused(t, opts, []string{"CAP_PERFMON"}, fmt.Sprintf("kernel.perf_event_paranoid is %d", level))
					}
				})
			})
		}
	}
}

// A seccomp filter that refuses a system call, as container profiles do, is detected even if other
// capabilities are missing.
func TestKernelSeccomp(t *testing.T) {
	relax(t)
	for name, call := range map[string]uint32{"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN} {
		for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
			for _, who := range []identity{{root: true}, {caps: justEnough}} {
				t.Run(fmt.Sprintf("%s %v root %v", name, errno, who.root), func(t *testing.T) {
					asSomebody(t, who, func(t *testing.T, _ *remote) {
						refuse(t, call, errno)
						if errno == syscall.EPERM {
							requireRefused(t, perfbuf.Options{}, nil, "seccomp", "allow the system calls bpf and perf_event_open", "a seccomp filter is in force here")
							return
						}
						err := openFails(t, childFD, perfbuf.Options{})
						t.Log(err)
						require.ErrorIs(t, err, errno)
						require.ErrorContains(t, err, "a sandbox hides them (a seccomp filter is in force here)")
					})
				})
			}
		}
	}
}

// The same after Open. Events in the rings still arrive, failing calls say why, and streams stay
// exact, because membarrier needs no privilege.
func TestKernelSeccompLater(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "or membarrier does not wait")
	relax(t)
	asSomebody(t, identity{caps: justEnough}, func(t *testing.T, e *remote) {
		r := openChild(t, perfbuf.Options{RingBytes: 64 << 10})
		defer r.Close()
		refuse(t, unix.SYS_BPF, syscall.EPERM)
		s := exact(t, r)
		defer s.Close()
		require.Equal(t, "membarrier", r.Stats().Barrier.Provider)
		useStream(t, e, r, s)
		require.False(t, updates(r, s))
		require.ErrorIs(t, r.Stats().Doorbell.Err, syscall.EPERM)
		for _, change := range []func() error{r.Pause, r.Resume} {
			err := change()
			require.ErrorIs(t, err, syscall.EPERM)
			require.ErrorContains(t, err, "the map's entry of CPU")
		}
		require.ErrorIs(t, r.Stats().Displaced.Err, syscall.EPERM)
	})
}

// Profiles of containers refuse mount(2). Streams then wait in another way, also those that were
// made before, and say why.
func TestKernelSeccompBindMount(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "or membarrier does not wait")
	// Membarrier always ranks below BindMount, however slow BindMount was measured; MapInMap may
	// not.
	o := perfbuf.StreamOptions{Barriers: perfbuf.BindMount | perfbuf.Membarrier}
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v later %v", errno, later), func(t *testing.T) {
				asSomebody(t, identity{root: true}, func(t *testing.T, e *remote) {
					r := openChild(t, perfbuf.Options{RingBytes: 64 << 10})
					defer r.Close()
					if !later {
						refuse(t, unix.SYS_MOUNT, errno)
					}
					s := openStream(t, r, o)
					defer s.Close()
					if later && strings.Contains(fmt.Sprint(r.Stats().Barrier.Refused), "none was seen running") {
						t.Log("too busy a machine for the proof")
						return
					}
					if later {
						require.Equal(t, "bind-mount", r.Stats().Barrier.Provider)
						refuse(t, unix.SYS_MOUNT, errno)
					}
					useStream(t, e, r, s)
					b := r.Stats().Barrier
					require.Equal(t, "membarrier", b.Provider)
					require.ErrorIs(t, b.Refused, errno)
					require.ErrorContains(t, b.Refused, "that allows mount(2)")
					require.NoError(t, b.Err)
				})
			})
		}
	}
}

// After Open, a process may become another user without capabilities. From Linux 5.19 on everything
// goes on. Before, bpf(2) takes CAP_BPF for all that it does: then the reader polls, and says why.
func TestKernelDroppedPrivileges(t *testing.T) {
	kerneltest.RequireCPUs(t, 2, "or membarrier does not wait")
	asSomebody(t, identity{root: true}, func(t *testing.T, e *remote) {
		r, err := perfbuf.Open(childFD, perfbuf.Options{RingBytes: 64 << 10})
		require.NoError(t, err)
		defer r.Close()
		s := exact(t, r)
		defer s.Close()

		require.NoError(t, syscall.Setgroups(nil))
		require.NoError(t, syscall.Setgid(nobody))
		require.NoError(t, syscall.Setuid(nobody))
		require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0), "else /proc/self is root's")
		requireNoCapabilities(t)
		requireRefused(t, perfbuf.Options{}, []string{"CAP_BPF", "CAP_PERFMON"})

		used := updates(r, s)
		useStream(t, e, r, s)
		require.ErrorContains(t, r.Stats().Barrier.Refused, "bind-mount: ", "of before")
		if !used {
			require.Equal(t, "membarrier", r.Stats().Barrier.Provider)
			var u unix.Utsname
			require.NoError(t, unix.Uname(&u))
			var major, minor int
			_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
			require.NoError(t, err)
			require.Less(t, major*1000+minor, 5019)
			require.ErrorIs(t, r.Stats().Doorbell.Err, syscall.EPERM)
			require.ErrorIs(t, r.Pause(), syscall.EPERM)
			require.ErrorIs(t, r.Stats().Displaced.Err, syscall.EPERM)
			return
		}
		require.Contains(t, []string{"map-in-map", "nest-levels"}, r.Stats().Barrier.Provider)
		require.NoError(t, s.Drain(t.Context(), func(perfbuf.Event) error { return nil }))
		require.NoError(t, s.Close())
		useReader(t, e, r)
		require.Equal(t, "membarrier", r.Stats().Barrier.Provider, "a new stream's")
		require.NoError(t, r.Stats().Doorbell.Err)
		require.NoError(t, r.Close())
		<-r.Done()
		require.NoError(t, r.Stats().Displaced.Err, "Close has looked")
		e.emit(r.Options().CPUs[0], 1)
	})
}

// updates waits until the doorbell has changed the map, or could not.
func updates(r *perfbuf.Reader, s *perfbuf.Stream) bool {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx) }()
	for {
		if b := r.Stats().Doorbell; b.Arms > 0 || b.Err != nil {
			cancel()
			<-done
			return b.Err == nil
		}
		runtime.Gosched()
	}
}

func requireNoCapabilities(t *testing.T) {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/status")
	require.NoError(t, err)
	require.NotEmpty(t, threads)
	for _, status := range threads {
		if b, err := os.ReadFile(status); err == nil { // it may have ended
			require.Contains(t, string(b), "CapEff:\t0000000000000000\n")
		}
	}
}

// refuse makes a system call fail, for all threads of this process, for good.
func refuse(t *testing.T, call uint32, errno syscall.Errno) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	// Of this thread; the others get it with the filter.
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})))
	require.Zero(t, failed)
}

// In a user namespace root has all capabilities, and none of them counts.
func TestKernelUserNamespace(t *testing.T) {
	here, err := os.Stat("/")
	require.NoError(t, err)
	if top, err := os.Stat("/proc/1/root/"); err == nil && !os.SameFile(here, top) {
		t.Skip("in a chroot, where the kernel makes no user namespaces")
	}
	asSomebody(t, identity{userns: true}, func(t *testing.T, _ *remote) {
		requireRefused(t, perfbuf.Options{}, []string{"CAP_BPF", "CAP_PERFMON"}, "uid 0 is in a user namespace")
	})
}

// A read-only descriptor is refused, with any privilege.
func TestKernelReadOnlyMap(t *testing.T) {
	e := kerneltest.Load(t)
	info, err := libbpfgo.GetMapInfoByFD(e.MapFD())
	require.NoError(t, err)
	attr := struct{ id, next, flags uint32 }{id: info.ID, flags: unix.BPF_F_RDONLY}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_GET_FD_BY_ID, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno == syscall.EPERM {
		t.Skip("takes CAP_SYS_ADMIN")
	}
	require.Zero(t, errno)
	defer unix.Close(int(fd))
	err = openFails(t, int(fd), perfbuf.Options{})
	t.Log(err)
	require.ErrorAs(t, err, new(*perfbuf.PermissionError))
	require.ErrorContains(t, err, "the map's descriptor is read-only (BPF_F_RDONLY), or the map frozen (BPF_MAP_FREEZE)")
}

// The two capabilities are enough for a flight recorder too, also for one that pauses its rings.
func TestKernelPrivilegedFlightRecorder(t *testing.T) {
	relax(t)
	for _, pause := range []bool{false, true} {
		t.Run(map[bool]string{false: "live", true: "pause"}[pause], func(t *testing.T) {
			asSomebody(t, identity{caps: justEnough}, func(t *testing.T, e *remote) {
				r, err := flight.Open(childFD, flight.Options{Pause: pause})
				require.NoError(t, err)
				defer r.Close()
				require.Equal(t, "map-in-map", r.Stats().Barrier)
				for i := range 3 {
					s, err := r.Snapshot(t.Context())
					require.NoError(t, err)
					require.Equal(t, 5*i*len(s.Rings()), s.Len())
					for _, ring := range s.Rings() {
						require.NoError(t, ring.Err)
						e.emit(ring.CPU, 5)
					}
					s.Release()
				}
			})
		})
	}
	t.Run("without", func(t *testing.T) {
		asSomebody(t, identity{}, func(t *testing.T, _ *remote) {
			_, err := flight.Open(childFD, flight.Options{})
			require.ErrorContains(t, err, "CAP_PERFMON")
		})
	})
}
