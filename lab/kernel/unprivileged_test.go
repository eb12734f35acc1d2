//go:build linux && cgo

package kernel_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/leak"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	nobody   = 65534
	childEnv = "RINGFOLD_TEST_UNPRIVILEGED" // which test the child is to run
	childFD  = 3                            // the map
)

// identity is the user and the capabilities of a child process.
type identity struct {
	root   bool      // as the test, or nobody, in a user namespace or not
	userns bool      // where it is root
	caps   []uintptr // of nobody's
}

// asNobody is asSomebody for uid nobody with some capabilities.
func asNobody(t *testing.T, caps []uintptr, f func(t *testing.T)) {
	t.Helper()
	asSomebody(t, identity{caps: caps}, func(t *testing.T, _ *remote) { f(t) })
}

// asSomebody runs a test, or a part of one, in a child process with another identity, and in it f.
// The map comes as childFD. What f leaves behind fails the test.
func asSomebody(t *testing.T, who identity, f func(t *testing.T, e *remote)) {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		time.Sleep(time.Nanosecond) // the runtime opens its epoll descriptor, which is then no leak
		e := &remote{t, os.NewFile(4, "requests"), os.NewFile(5, "answers")}
		leak.Check(t)
		f(t, e)
		return
	}
	kerneltest.RequireRoot(t)
	e := kerneltest.Load(t)
	fd, err := unix.Dup(e.MapFD())
	require.NoError(t, err)
	mapFile := os.NewFile(uintptr(fd), "map")
	defer mapFile.Close()
	requests, ask, err := os.Pipe()
	require.NoError(t, err)
	defer requests.Close()
	answers, answer, err := os.Pipe()
	require.NoError(t, err)
	defer answers.Close()
	served := background(t, func() { serve(e, requests, answer) })

	// Not by its path, whose directories only root may pass.
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), childEnv+"="+t.Name(), "GORACE=atexit_sleep_ms=0")
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{mapFile, ask, answers}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	switch {
	case who.userns:
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
		cmd.SysProcAttr.GidMappings = cmd.SysProcAttr.UidMappings
	case !who.root:
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		cmd.SysProcAttr.AmbientCaps = who.caps
	}
	out, err := cmd.CombinedOutput()
	ask.Close()
	<-served
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	t.Logf("%s", out)
}

// serve outputs on behalf of a child: an event for each byte, which is the CPU.
func serve(e *kerneltest.Emitter, requests io.Reader, answers io.WriteCloser) {
	defer answers.Close()
	var b [1]byte
	for {
		if _, err := requests.Read(b[:]); err != nil {
			return
		}
		e.Emit(int(b[0]), 1, 24)
		answers.Write(b[:])
	}
}

// remote is the emitter of a child's parent.
type remote struct {
	t                 *testing.T
	requests, answers *os.File
}

// emit outputs events on a CPU.
func (r *remote) emit(cpu, n int) {
	r.t.Helper()
	for range n {
		b := [1]byte{byte(cpu)}
		_, err := r.requests.Write(b[:])
		require.NoError(r.t, err)
		_, err = io.ReadFull(r.answers, b[:])
		require.NoError(r.t, err, "the parent is gone")
	}
}

// requireRefused requires that Open fails for want of privilege, says so, and leaves nothing
// behind.
func requireRefused(t *testing.T, opts perfbuf.Options, missing []string, says ...string) *perfbuf.PermissionError {
	t.Helper()
	err := openFails(t, childFD, opts)
	t.Log(err)
	var p *perfbuf.PermissionError
	require.ErrorAs(t, err, &p)
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorAs(t, err, new(syscall.Errno))
	require.Equal(t, os.Geteuid(), p.UID)
	require.Equal(t, missing, p.Missing)
	for _, text := range says {
		require.Contains(t, err.Error(), text)
	}
	return p
}

func TestKernelUnprivileged(t *testing.T) {
	asNobody(t, nil, func(t *testing.T) {
		requireRefused(t, perfbuf.Options{}, []string{"CAP_BPF", "CAP_PERFMON"},
			"uid 65534", "lacks CAP_BPF and CAP_PERFMON", "perf_event_paranoid", "setcap", "AmbientCapabilities")
	})
}

// One of the two capabilities is not enough, and the error says which it is.
func TestKernelHalfPrivileged(t *testing.T) {
	for _, c := range []struct {
		has     uintptr
		missing string
	}{{unix.CAP_BPF, "CAP_PERFMON"}, {unix.CAP_PERFMON, "CAP_BPF"}} {
		t.Run("without "+c.missing, func(t *testing.T) {
			asNobody(t, []uintptr{c.has}, func(t *testing.T) {
				if b, _ := os.ReadFile("/proc/sys/kernel/unprivileged_bpf_disabled"); c.missing == "CAP_BPF" && string(b) == "0\n" {
					t.Skip("kernel.unprivileged_bpf_disabled is 0: BPF takes no CAP_BPF")
				}
				p := requireRefused(t, perfbuf.Options{}, []string{c.missing}, fmt.Sprintf("uid %d lacks %s (", nobody, c.missing))
				require.NotContains(t, p.Error(), "lacks "+map[uintptr]string{unix.CAP_BPF: "CAP_BPF", unix.CAP_PERFMON: "CAP_PERFMON"}[c.has])
			})
		})
	}
}

// Root without capabilities, in one thread of a process that has them.
func TestKernelRootWithoutCapabilities(t *testing.T) {
	kerneltest.RequireRoot(t)
	e := kerneltest.Load(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	require.NoError(t, unix.Capget(&hdr, &all[0]))
	none := all // permitted, but not in effect
	none[0].Effective, none[1].Effective = 0, 0
	require.NoError(t, unix.Capset(&hdr, &none[0]))
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{})
	require.NoError(t, unix.Capset(&hdr, &all[0]))

	require.Nil(t, r)
	var p *perfbuf.PermissionError
	require.ErrorAs(t, err, &p)
	require.Zero(t, p.UID)
	require.Equal(t, []string{"CAP_BPF", "CAP_PERFMON"}, p.Missing)
}

// timeEnv has a process make a time namespace for its children, in which CLOCK_MONOTONIC is so many
// seconds ahead.
const timeEnv = "RINGFOLD_TEST_TIME_NAMESPACE"

// It happens here as this is the main thread, whose namespaces /proc/self shows.
func init() {
	if offset := os.Getenv(timeEnv); offset != "" {
		// Before Linux 6.2 such a thread cannot make threads (copy_process: EINVAL). Locked, it
		// leaves that to another one of Go's.
		runtime.LockOSThread()
		if err := unshareTime(offset); err != nil {
			panic(err)
		}
	}
}

// unshareTime makes a time namespace for the children of this thread.
func unshareTime(offset string) error {
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("unshare(CLONE_NEWTIME): %w", err)
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), []byte("monotonic "+offset+" 0\n"), 0)
}

// A reader's clock and Now agree with the events' clock in every time namespace. Open refuses where
// the kernel does not reveal the offset.
func TestKernelTimeNamespace(t *testing.T) {
	if _, err := os.Lstat("/proc/self/ns/time"); err != nil {
		t.Skip("needs time namespaces (CONFIG_TIME_NS, Linux 5.6)")
	}
	for _, c := range []struct{ within, unshared string }{
		{"", "1000"}, {"", "-3"}, // has made one
		{"1000", ""}, {"-3", ""}, // is in one
		{"1000", "2000"}, {"-3", "0"}, // both
	} {
		t.Run(fmt.Sprintf("within %s, unshared %s", c.within, c.unshared), func(t *testing.T) {
			if c.within != "" && os.Getenv(childEnv) == "" {
				kerneltest.RequireRoot(t)
				runtime.LockOSThread() // never unlocked: the thread ends with the test
				require.NoError(t, unshareTime(c.within))
				if err := exec.Command("/proc/self/exe", "-test.run=^$").Run(); errors.Is(err, syscall.EINVAL) {
					t.Skip("Go forks with CLONE_VM, which this kernel refuses into a time namespace (copy_process)")
				}
			}
			t.Setenv(timeEnv, c.unshared)
			asSomebody(t, identity{root: true}, requireKernelsClock)
		})
	}
}

func requireKernelsClock(t *testing.T, e *remote) {
	own, err := os.Readlink("/proc/self/ns/time")
	require.NoError(t, err)
	childrens, err := os.Readlink("/proc/self/ns/time_for_children")
	require.NoError(t, err)
	const initial = "time:[4026531834]"
	t.Log(own, childrens)
	// Not so before Linux 6.2, where exec does not enter a time namespace
	if own != initial && own != childrens {
		require.ErrorContains(t, openFails(t, childFD, perfbuf.Options{}), "perfbuf.Open: this process is in a time namespace")
		return
	}
	r := openChild(t, perfbuf.Options{RingBytes: 64 << 10})
	defer r.Close()
	cpu := r.Rings()[0].CPU()
	var times []uint64
	s := unordered(t, r)
	for range 5 {
		times = append(times, perfbuf.Now())
		e.emit(cpu, 1)
		// The marker's time is by the reader's clock
		require.NoError(t, s.Flush())
		for _, rec := range collect(t, s) {
			times = append(times, rec.Time)
		}
	}
	require.Len(t, times, 15)
	require.IsIncreasing(t, times)
	require.NoError(t, s.Close())
	s = exact(t, r)
	defer s.Close()
	useStream(t, e, r, s)
}
