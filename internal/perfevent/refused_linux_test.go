package perfevent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withCaps calls f with the effective capabilities that keep returns, on a thread of its own.
func withCaps(t *testing.T, keep func(caps uint64) uint64, f func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlock: the thread must not be reused
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&hdr, &data[0])
		if err == nil {
			left := keep(uint64(data[1].Effective)<<32 | uint64(data[0].Effective))
			data[0].Effective, data[1].Effective = uint32(left), uint32(left>>32)
			err = unix.Capset(&hdr, &data[0])
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	require.NoError(t, <-done)
}

// explained calls explain with those of these capabilities that the test has.
func explained(t *testing.T, ringBytes int, caps ...uint) (e *host.PermissionError, had uint64) {
	want := uint64(0)
	for _, c := range caps {
		want |= 1 << c
	}
	withCaps(t, func(caps uint64) uint64 { had = caps & want; return had }, func() {
		errors.As(explain(fmt.Errorf("perfbuf.Open: %w", syscall.EPERM), ringBytes), &e)
	})
	require.NotNil(t, e)
	require.ErrorIs(t, e, fs.ErrPermission)
	require.ErrorIs(t, e, syscall.EPERM)
	require.Equal(t, os.Geteuid(), e.UID)
	require.ErrorContains(t, e, fmt.Sprintf("perfbuf.Open: operation not permitted: uid %d ", e.UID))
	return e, had
}

func TestPermissionWithoutCapabilities(t *testing.T) {
	e, _ := explained(t, 1<<20)
	require.Equal(t, []string{"CAP_BPF", "CAP_PERFMON"}, e.Missing)
	require.ErrorContains(t, e, "lacks CAP_BPF and CAP_PERFMON")
	require.ErrorContains(t, e, fmt.Sprintf("kernel.perf_event_paranoid is %d", e.Paranoid))
	require.ErrorContains(t, e, "setcap cap_bpf,cap_perfmon+ep")
	require.NotEqual(t, -100, e.Paranoid, "/proc is there")
	require.NotEqual(t, -1, e.MlockKB)
}

func TestPermissionNamesWhatIsMissing(t *testing.T) {
	e, had := explained(t, 1<<20, unix.CAP_BPF)
	if had == 0 {
		t.Skip("takes CAP_BPF")
	}
	require.Equal(t, []string{"CAP_PERFMON"}, e.Missing)
	require.ErrorContains(t, e, "lacks CAP_PERFMON (")
}

func TestPermissionToLockMemory(t *testing.T) {
	e, had := explained(t, 1<<20, unix.CAP_BPF, unix.CAP_PERFMON)
	if had != 1<<unix.CAP_BPF|1<<unix.CAP_PERFMON {
		t.Skip("takes CAP_BPF and CAP_PERFMON")
	}
	require.Equal(t, []string{"CAP_IPC_LOCK"}, e.Missing)
	require.ErrorContains(t, e, "1024 KiB per CPU exceed")
	require.ErrorContains(t, e, fmt.Sprintf("kernel.perf_event_mlock_kb is %d", e.MlockKB))
}

func TestPermissionWithAllCapabilities(t *testing.T) {
	e, had := explained(t, 1<<20, unix.CAP_SYS_ADMIN, unix.CAP_IPC_LOCK)
	if had != 1<<unix.CAP_SYS_ADMIN|1<<unix.CAP_IPC_LOCK {
		t.Skip("takes CAP_SYS_ADMIN and CAP_IPC_LOCK")
	}
	require.Empty(t, e.Missing)
	require.ErrorContains(t, e, "a sandbox forbids it")
	require.NotContains(t, e.Error(), "a seccomp filter is in force here")
	e, _ = explained(t, 0, unix.CAP_SYS_ADMIN) // before any ring is mapped
	require.Empty(t, e.Missing)
}

func TestOtherErrorsAreExplained(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EMFILE: "raise the limit", syscall.ENFILE: "raise the limit", syscall.ENOMEM: "4096 bytes per CPU: choose a smaller Options.RingBytes",
		syscall.ENOSYS: "CONFIG_PERF_EVENTS", syscall.EOPNOTSUPP: "CONFIG_PERF_EVENTS",
	} {
		err := explain(fmt.Errorf("perfbuf.Open: %w", errno), 4096)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, errno)
	}
	plain := fmt.Errorf("perfbuf.Open: %w", syscall.EBADF)
	require.Equal(t, plain, explain(plain, 4096))
}

// Debian and Ubuntu have levels of perf_event_paranoid at which CAP_PERFMON is not enough.
func TestPermissionWhereParanoidIsStrict(t *testing.T) {
	failed := func(errno syscall.Errno, paranoid int, caps ...uint) (e *host.PermissionError) {
		withCaps(t, func(has uint64) uint64 {
			want := uint64(0)
			for _, c := range caps {
				want |= 1 << c
			}
			require.Equal(t, want, has&want, "takes root")
			return want
		}, func() {
			require.ErrorAs(t, permissionError(errno, 64<<10, paranoid), &e)
		})
		return e
	}
	e := failed(syscall.EACCES, 2)
	require.NotContains(t, e.Detail, "above 2")
	e = failed(syscall.EACCES, 3)
	require.Equal(t, []string{"CAP_BPF", "CAP_PERFMON"}, e.Missing)
	require.Contains(t, e.Detail, "also while kernel.perf_event_paranoid is above 2")
	if _, had := explained(t, 0, unix.CAP_BPF, unix.CAP_PERFMON); had == 0 {
		t.Skip("takes CAP_BPF and CAP_PERFMON")
	}
	e = failed(syscall.EACCES, 3, unix.CAP_BPF, unix.CAP_PERFMON)
	require.Equal(t, []string{"CAP_SYS_ADMIN"}, e.Missing)
	require.Contains(t, e.Detail, "sysctl kernel.perf_event_paranoid=2")
	e = failed(syscall.EPERM, 3, unix.CAP_BPF, unix.CAP_PERFMON)
	require.Equal(t, []string{"CAP_IPC_LOCK"}, e.Missing, "that is mmap's error")
}

// The missing capability depends on the call that failed, if libbpf named it.
func TestPermissionOfTheCall(t *testing.T) {
	const all = "CAP_BPF CAP_PERFMON CAP_IPC_LOCK"
	bits := map[string]uint{"CAP_BPF": unix.CAP_BPF, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_IPC_LOCK": unix.CAP_IPC_LOCK}
	opening := &bpf.Error{Call: "perf_buffer__new_raw", Detail: "failed to open perf buffer event on cpu #0", Errno: syscall.EPERM}
	mapping := &bpf.Error{Call: "perf_buffer__new_raw", Detail: "failed to mmap perf buffer on cpu #0", Errno: syscall.EPERM}
	creating := &bpf.Error{Call: "bpf(BPF_MAP_CREATE)", Errno: syscall.EPERM}
	for _, c := range []struct {
		err           error
		caps, missing string
		says          string
	}{
		{opening, "CAP_BPF", "CAP_PERFMON", "lacks CAP_PERFMON"},
		{opening, "CAP_BPF CAP_PERFMON", "", "a sandbox forbids it"},
		{opening, "CAP_PERFMON", "CAP_BPF", "a sandbox forbids it"},
		{mapping, "CAP_BPF", "CAP_IPC_LOCK", "64 KiB per CPU exceed"},
		{mapping, all, "", "a sandbox forbids it"},
		{creating, "", "CAP_BPF CAP_PERFMON", "lacks CAP_BPF and CAP_PERFMON"},
		{creating, "CAP_BPF", "CAP_PERFMON", "a sandbox forbids it"},
		{creating, all, "", "a sandbox forbids it"},
		{&bpf.Error{Call: "perf_buffer__new_raw", Errno: syscall.EPERM}, "CAP_BPF CAP_PERFMON", "CAP_IPC_LOCK", "KiB per CPU exceed"},
		{syscall.EPERM, "CAP_BPF CAP_PERFMON", "CAP_IPC_LOCK", "KiB per CPU exceed"},
	} {
		want, had := uint64(0), uint64(0)
		for _, name := range strings.Fields(c.caps) {
			want |= 1 << bits[name]
		}
		var e *host.PermissionError
		withCaps(t, func(caps uint64) uint64 { had = caps & want; return had }, func() { errors.As(explain(c.err, 64<<10), &e) })
		if had != want {
			t.Skip("takes " + c.caps)
		}
		require.NotNil(t, e)
		require.Equal(t, c.missing, strings.Join(e.Missing, " "), "%v with %s", c.err, c.caps)
		require.ErrorContains(t, e, c.says)
	}
}
