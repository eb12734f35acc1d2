package perfevent

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"golang.org/x/sys/unix"
)

// explain adds the cause of an Open error and its remedy.
func explain(err error, ringBytes int) error {
	switch {
	case errors.Is(err, fs.ErrPermission): // EPERM, EACCES
		return permissionError(err, ringBytes, host.Sysctl("kernel/perf_event_paranoid", -100))
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: rings take up to two file descriptors per CPU, and some more: raise the limit (ulimit -n, LimitNOFILE=)", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: %d bytes per CPU: choose a smaller Options.RingBytes", err, ringBytes)
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no perf events or no BPF (CONFIG_PERF_EVENTS, CONFIG_BPF_SYSCALL), or a sandbox hides them%s", err, host.SeccompNote())
	}
	return err
}

// refused names the system call that failed, as far as our own error or libbpf's identifies it.
func refused(err error) string {
	var ours *callError
	if errors.As(err, &ours) {
		return ours.call
	}
	var e *bpf.Error
	switch {
	case !errors.As(err, &e):
		return ""
	case strings.Contains(e.Detail, "mmap"):
		return "mmap"
	case strings.Contains(e.Detail, "open perf buffer event"):
		return "perf_event_open"
	case strings.HasPrefix(e.Call, "perf_buffer__new") && e.Detail == "":
		return ""
	}
	return "bpf"
}

// changes reports whether the failed call was to change a map.
func changes(err error) bool {
	var e *bpf.Error
	return errors.As(err, &e) && (e.Call == "bpf(BPF_MAP_UPDATE_ELEM)" || e.Call == "bpf(BPF_MAP_DELETE_ELEM)")
}

// strict is a level of kernel.perf_event_paranoid that only kernels of Debian (by default) and
// Ubuntu know. From there on perf events need CAP_SYS_ADMIN, even with CAP_PERFMON; newer Ubuntu
// kernels accept CAP_PERFMON.
const strict = 3

func permissionError(err error, ringBytes, paranoid int) error {
	e := host.NewPermissionError(err)
	e.Paranoid = paranoid
	caps := host.Caps()
	has := func(c uint) bool { return caps>>c&1 != 0 }
	call := refused(err)
	lacks := false                // a capability that the call needs
	if !has(unix.CAP_SYS_ADMIN) { // CAP_SYS_ADMIN includes the other two
		for _, c := range []struct {
			bit        uint
			name, call string
		}{{unix.CAP_BPF, "CAP_BPF", "bpf"}, {unix.CAP_PERFMON, "CAP_PERFMON", "perf_event_open"}} {
			if !has(c.bit) {
				e.Missing = append(e.Missing, c.name)
				lacks = lacks || call == c.call || call == ""
			}
		}
	}
	switch {
	case ringBytes > 0 && !has(unix.CAP_IPC_LOCK) && (call == "mmap" || call == "" && !lacks && !errors.Is(err, syscall.EACCES)):
		e.Missing = []string{"CAP_IPC_LOCK"}
		e.Detail = fmt.Sprintf("uid %d has no CAP_IPC_LOCK, and %d KiB per CPU exceed what it may lock in memory (kernel.perf_event_mlock_kb is %d per CPU, "+
			"for all rings of this user; RLIMIT_MEMLOCK, which is %s, adds to it): choose a smaller Options.RingBytes, raise either limit, or grant CAP_IPC_LOCK",
			e.UID, ringBytes>>10, e.MlockKB, host.Memlock())
	case host.InUserNamespace():
		e.Missing = []string{"CAP_BPF", "CAP_PERFMON"}
		e.Detail = fmt.Sprintf("uid %d is in a user namespace, whose capabilities do not count for BPF and perf events: "+
			"run outside it: not in a rootless container, and without user namespace remapping", e.UID)
	case lacks:
		e.Detail = fmt.Sprintf("uid %d lacks %s (kernel.perf_event_paranoid is %d): run as root, or grant them, for example with "+
			"setcap cap_bpf,cap_perfmon+ep PROGRAM or AmbientCapabilities=CAP_BPF CAP_PERFMON in a systemd unit; before Linux 5.8 it takes CAP_SYS_ADMIN",
			e.UID, strings.Join(e.Missing, " and "), e.Paranoid)
		if paranoid >= strict {
			e.Detail += ", and on Debian and Ubuntu also while kernel.perf_event_paranoid is above 2"
		}
	// seccomp returns EPERM.
	case paranoid >= strict && !has(unix.CAP_SYS_ADMIN) && errors.Is(err, syscall.EACCES) && call != "bpf":
		e.Missing = []string{"CAP_SYS_ADMIN"}
		e.Detail = fmt.Sprintf("kernel.perf_event_paranoid is %d: above 2, kernels of Debian and Ubuntu refuse perf events without CAP_SYS_ADMIN, "+
			"even with CAP_PERFMON: set it to 2 (sysctl kernel.perf_event_paranoid=2), run as root, or grant CAP_SYS_ADMIN", e.Paranoid)
	case changes(err): // the earlier bpf calls were allowed
		e.Detail = fmt.Sprintf("uid %d has the capabilities for it: the map's descriptor is read-only (BPF_F_RDONLY), or the map frozen (BPF_MAP_FREEZE): pass another",
			e.UID)
	default:
		e.Detail = fmt.Sprintf("uid %d has the capabilities for it (kernel.perf_event_paranoid is %d): a sandbox forbids it, such as seccomp or an LSM: "+
			"allow the system calls bpf and perf_event_open%s", e.UID, e.Paranoid, host.SeccompNote())
		if call == "bpf" && bpf.OlderThan(5, 11) {
			e.Detail += fmt.Sprintf("; or RLIMIT_MEMLOCK, which is %s, is used up: before Linux 5.11 BPF maps count against it: "+
				"raise it (ulimit -l unlimited, LimitMEMLOCK=infinity)", host.Memlock())
		}
	}
	return e
}
