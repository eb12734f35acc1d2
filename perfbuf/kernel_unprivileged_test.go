//go:build linux && cgo

package perfbuf_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	nobody   = 65534
	childEnv = "RINGFOLD_TEST_UNPRIVILEGED" // which test the child is to run
	childFD  = 3                            // the map
)

// asNobody runs a test in a child process of uid nobody with some capabilities, and in it f. The map comes as childFD.
func asNobody(t *testing.T, caps []uintptr, f func(t *testing.T)) {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		time.Sleep(time.Nanosecond) // the runtime opens its epoll descriptor, which is then no leak
		f(t)
		return
	}
	kerneltest.RequireRoot(t)
	e := kerneltest.Load(t)
	fd, err := unix.Dup(e.MapFD())
	require.NoError(t, err)
	mapFile := os.NewFile(uintptr(fd), "map")
	defer mapFile.Close()
	// Not by its path, whose directories only root may pass.
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), childEnv+"="+t.Name(), "GORACE=atexit_sleep_ms=0")
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{mapFile}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: caps}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

func TestKernelUnprivileged(t *testing.T) {
	asNobody(t, nil, func(t *testing.T) {
		err := openFails(t, childFD, perfbuf.Options{})
		t.Log(err)
		var p *perfbuf.PermissionError
		require.ErrorAs(t, err, &p)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.Equal(t, nobody, p.UID)
		require.Equal(t, []string{"CAP_BPF", "CAP_PERFMON"}, p.Missing)
		for _, text := range []string{"uid 65534", "CAP_BPF", "CAP_PERFMON", "perf_event_paranoid", "setcap"} {
			require.Contains(t, err.Error(), text)
		}
		var errno syscall.Errno
		require.True(t, errors.As(err, &errno))
	})
}

// One of the two capabilities is not enough, and the error says which it is.
func TestKernelHalfPrivileged(t *testing.T) {
	asNobody(t, []uintptr{unix.CAP_BPF}, func(t *testing.T) {
		err := openFails(t, childFD, perfbuf.Options{})
		var p *perfbuf.PermissionError
		require.ErrorAs(t, err, &p)
		require.Equal(t, []string{"CAP_PERFMON"}, p.Missing)
		require.NotContains(t, p.Detail, "lacks CAP_BPF")
	})
}

// The two capabilities are enough for rings of ordinary size. Larger ones need room under the limits on locked memory, or CAP_IPC_LOCK.
func TestKernelPrivilegedNobody(t *testing.T) {
	asNobody(t, []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}, func(t *testing.T) {
		r, err := perfbuf.Open(childFD, perfbuf.Options{RingBytes: 64 << 10})
		if level, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); len(level) > 0 && level[0] > '2' && level[0] <= '9' {
			// Debian's and Ubuntu's own levels: nothing below CAP_SYS_ADMIN will do, and the error says so.
			var p *perfbuf.PermissionError
			require.ErrorAs(t, err, &p)
			require.Equal(t, []string{"CAP_SYS_ADMIN"}, p.Missing)
			require.Contains(t, err.Error(), "sysctl kernel.perf_event_paranoid=2")
			return
		}
		require.NoError(t, err)
		require.NoError(t, r.Close())

		require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}))
		err = openFails(t, childFD, perfbuf.Options{RingBytes: 16 << 20})
		t.Log(err)
		var p *perfbuf.PermissionError
		require.ErrorAs(t, err, &p)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.Equal(t, []string{"CAP_IPC_LOCK"}, p.Missing)
		require.Positive(t, p.MlockKB)
		require.Contains(t, err.Error(), "16384 KiB per CPU")
		require.Contains(t, err.Error(), "perf_event_mlock_kb")

		r, err = perfbuf.Open(childFD, perfbuf.Options{RingBytes: 64 << 10})
		require.NoError(t, err, "perf_event_mlock_kb grants that much without a limit")
		require.NoError(t, r.Close())
	})
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
