package perfbuf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// explain adds to an error of Open what causes it and how to mend it. libbpf says which errno, but
// not which of its steps failed.
func explain(err error, ringBytes int) error {
	switch {
	case errors.Is(err, fs.ErrPermission): // EPERM, EACCES
		return permissionError(err, ringBytes, sysctl("kernel/perf_event_paranoid", -100))
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: a ring takes a file descriptor per CPU: raise the limit (ulimit -n, LimitNOFILE=)", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: %d bytes per CPU: choose a smaller Options.RingBytes", err, ringBytes)
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no perf events or no BPF (CONFIG_PERF_EVENTS, CONFIG_BPF_SYSCALL), or a sandbox hides them", err)
	}
	return err
}

// strict is a level of kernel.perf_event_paranoid that Linux does not know, but kernels of Debian (by default) and Ubuntu do:
// at it and above, perf events take CAP_SYS_ADMIN, whoever has CAP_PERFMON.
const strict = 3

func permissionError(err error, ringBytes, paranoid int) error {
	e := &PermissionError{UID: os.Geteuid(), Err: err, Paranoid: paranoid, MlockKB: sysctl("kernel/perf_event_mlock_kb", -1)}
	caps := effectiveCaps()
	has := func(c uint) bool { return caps>>c&1 != 0 }
	if !has(unix.CAP_SYS_ADMIN) { // which stands for the other two
		for _, c := range []struct {
			bit  uint
			name string
		}{{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}} {
			if !has(c.bit) {
				e.Missing = append(e.Missing, c.name)
			}
		}
	}
	switch {
	case len(e.Missing) > 0:
		e.Detail = fmt.Sprintf("uid %d lacks %s (kernel.perf_event_paranoid is %d): run as root, or grant them, for example with "+
			"setcap cap_bpf,cap_perfmon+ep PROGRAM or AmbientCapabilities=CAP_BPF CAP_PERFMON in a systemd unit; before Linux 5.8 it takes CAP_SYS_ADMIN",
			e.UID, strings.Join(e.Missing, " and "), e.Paranoid)
		if paranoid >= strict {
			e.Detail += ", and so it does while kernel.perf_event_paranoid is above 2"
		}
	case paranoid >= strict && !has(unix.CAP_SYS_ADMIN) && errors.Is(err, syscall.EACCES): // mmap's refusal is EPERM
		e.Missing = []string{"CAP_SYS_ADMIN"}
		e.Detail = fmt.Sprintf("kernel.perf_event_paranoid is %d: above 2, kernels of Debian and Ubuntu refuse perf events to all who lack CAP_SYS_ADMIN, "+
			"CAP_PERFMON or not: set it to 2 (sysctl kernel.perf_event_paranoid=2), run as root, or grant CAP_SYS_ADMIN", e.Paranoid)
	case ringBytes > 0 && !has(unix.CAP_IPC_LOCK):
		e.Missing = []string{"CAP_IPC_LOCK"}
		e.Detail = fmt.Sprintf("uid %d has no CAP_IPC_LOCK, and %d KiB per CPU exceed what it may lock in memory (kernel.perf_event_mlock_kb is %d per CPU, "+
			"RLIMIT_MEMLOCK comes on top): choose a smaller Options.RingBytes, raise either limit, or grant CAP_IPC_LOCK", e.UID, ringBytes>>10, e.MlockKB)
	default:
		e.Detail = fmt.Sprintf("uid %d has the capabilities (kernel.perf_event_paranoid is %d): a sandbox forbids it, such as seccomp, an LSM or a user namespace: "+
			"allow the system calls bpf and perf_event_open", e.UID, e.Paranoid)
	}
	return e
}

func sysctl(name string, missing int) int {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return missing
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return missing
	}
	return n
}

// effectiveCaps is the set of this thread's effective capabilities.
func effectiveCaps() uint64 {
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, _ := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return caps
		}
	}
	return 0
}
