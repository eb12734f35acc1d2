package perfevent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"golang.org/x/sys/unix"
)

// PermissionError becomes perfbuf.PermissionError.
type PermissionError struct {
	UID      int
	Missing  []string
	Paranoid int
	MlockKB  int
	Detail   string
	Err      error
}

func (e *PermissionError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Detail) }

// Unwrap returns the failed call's error.
func (e *PermissionError) Unwrap() error { return e.Err }

// explain adds to an error of Open what causes it and how to mend it.
func explain(err error, ringBytes int) error {
	switch {
	case errors.Is(err, fs.ErrPermission): // EPERM, EACCES
		return permissionError(err, ringBytes, sysctl("kernel/perf_event_paranoid", -100))
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: rings take up to two file descriptors per CPU, and some more: raise the limit (ulimit -n, LimitNOFILE=)", err)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: %d bytes per CPU: choose a smaller Options.RingBytes", err, ringBytes)
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: this kernel has no perf events or no BPF (CONFIG_PERF_EVENTS, CONFIG_BPF_SYSCALL), or a sandbox hides them%s", err, seccompNote())
	}
	return err
}

// refused is the system call that has failed, as far as libbpf says.
func refused(err error) string {
	var e *libbpf.Error
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

// changes tells whether what has failed was to change a map.
func changes(err error) bool {
	var e *libbpf.Error
	return errors.As(err, &e) && (e.Call == "bpf_map_update_elem" || e.Call == "bpf_map_delete_elem")
}

// strict is a level of kernel.perf_event_paranoid that Linux does not know, but kernels of Debian (by default) and Ubuntu do:
// at it and above, perf events take CAP_SYS_ADMIN, whoever has CAP_PERFMON. Newer ones of Ubuntu take CAP_PERFMON too.
const strict = 3

func permissionError(err error, ringBytes, paranoid int) error {
	e := &PermissionError{UID: os.Geteuid(), Err: err, Paranoid: paranoid, MlockKB: sysctl("kernel/perf_event_mlock_kb", -1)}
	caps := effectiveCaps()
	has := func(c uint) bool { return caps>>c&1 != 0 }
	call := refused(err)
	lacks := false                // what the call takes
	if !has(unix.CAP_SYS_ADMIN) { // which stands for the other two
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
			"for all rings of this user; RLIMIT_MEMLOCK, which is %s, comes on top): choose a smaller Options.RingBytes, raise either limit, or grant CAP_IPC_LOCK",
			e.UID, ringBytes>>10, e.MlockKB, memlock())
	case inUserNamespace():
		e.Missing = []string{"CAP_BPF", "CAP_PERFMON"}
		e.Detail = fmt.Sprintf("uid %d is in a user namespace, whose capabilities do not count for BPF and perf events: "+
			"run outside of it, that is, in no rootless container and without user namespace remapping", e.UID)
	case lacks:
		e.Detail = fmt.Sprintf("uid %d lacks %s (kernel.perf_event_paranoid is %d): run as root, or grant them, for example with "+
			"setcap cap_bpf,cap_perfmon+ep PROGRAM or AmbientCapabilities=CAP_BPF CAP_PERFMON in a systemd unit; before Linux 5.8 it takes CAP_SYS_ADMIN",
			e.UID, strings.Join(e.Missing, " and "), e.Paranoid)
		if paranoid >= strict {
			e.Detail += ", and on Debian and Ubuntu also while kernel.perf_event_paranoid is above 2"
		}
	case paranoid >= strict && !has(unix.CAP_SYS_ADMIN) && errors.Is(err, syscall.EACCES) && call != "bpf": // seccomp says EPERM
		e.Missing = []string{"CAP_SYS_ADMIN"}
		e.Detail = fmt.Sprintf("kernel.perf_event_paranoid is %d: above 2, kernels of Debian and Ubuntu refuse perf events to all who lack CAP_SYS_ADMIN, "+
			"CAP_PERFMON or not: set it to 2 (sysctl kernel.perf_event_paranoid=2), run as root, or grant CAP_SYS_ADMIN", e.Paranoid)
	case changes(err): // while the calls of bpf before were allowed
		e.Detail = fmt.Sprintf("uid %d has the capabilities for it: the map's descriptor is read-only (BPF_F_RDONLY), or the map frozen (BPF_MAP_FREEZE): pass another",
			e.UID)
	default:
		e.Detail = fmt.Sprintf("uid %d has the capabilities for it (kernel.perf_event_paranoid is %d): a sandbox forbids it, such as seccomp or an LSM: "+
			"allow the system calls bpf and perf_event_open%s", e.UID, e.Paranoid, seccompNote())
		if call == "bpf" && olderThan(5, 11) {
			e.Detail += fmt.Sprintf("; or RLIMIT_MEMLOCK, which is %s, is used up: before Linux 5.11 BPF maps count against it: "+
				"raise it (ulimit -l unlimited, LimitMEMLOCK=infinity)", memlock())
		}
	}
	return e
}

// seccompNote tells whether this thread has a seccomp filter.
func seccompNote() string {
	if mode := status("Seccomp"); mode != "" && mode != "0" {
		return " (a seccomp filter is in force here)"
	}
	return ""
}

// inUserNamespace tells whether the process is in another user namespace than the initial one, whose inode is USER_NS_INIT_INO
// of include/uapi/linux/nsfs.h.
func inUserNamespace() bool {
	ns, err := os.Readlink("/proc/self/ns/user")
	return err == nil && ns != "user:[4026531837]"
}

// memlock is RLIMIT_MEMLOCK, in words.
func memlock() string {
	var l unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); {
	case err != nil:
		return "unknown"
	case l.Cur == unix.RLIM_INFINITY:
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", l.Cur>>10)
}

// olderThan tells whether the kernel's version is below this one.
func olderThan(major, minor int) bool {
	var u unix.Utsname
	var a, b int
	if unix.Uname(&u) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	return n == 2 && (a < major || a == major && b < minor)
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
	caps, _ := strconv.ParseUint(status("CapEff"), 16, 64)
	return caps
}

// status is a field of this thread's status, empty if there is none.
func status(field string) string {
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
