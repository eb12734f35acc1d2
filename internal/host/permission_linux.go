package host

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

// NewPermissionError fills in the identity of the process.
func NewPermissionError(err error) *PermissionError {
	return &PermissionError{UID: os.Geteuid(), Err: err, Paranoid: Sysctl("kernel/perf_event_paranoid", -100), MlockKB: Sysctl("kernel/perf_event_mlock_kb", -1)}
}

// SeccompNote reports whether this thread has a seccomp filter.
func SeccompNote() string {
	if mode := status("Seccomp"); mode != "" && mode != "0" {
		return " (a seccomp filter is in force here)"
	}
	return ""
}

// InUserNamespace reports whether the process is outside the initial user namespace, whose inode is
// USER_NS_INIT_INO of include/uapi/linux/nsfs.h.
func InUserNamespace() bool {
	ns, err := os.Readlink("/proc/self/ns/user")
	return err == nil && ns != "user:[4026531837]"
}

// Memlock describes RLIMIT_MEMLOCK in words.
func Memlock() string {
	var l unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); {
	case err != nil:
		return "unknown"
	case l.Cur == unix.RLIM_INFINITY:
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", l.Cur>>10)
}

// Sysctl returns a number from /proc/sys.
func Sysctl(name string, missing int) int {
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

// Caps returns this thread's effective capabilities.
func Caps() uint64 {
	caps, _ := strconv.ParseUint(status("CapEff"), 16, 64)
	return caps
}

// status returns a field of this thread's status, or "".
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

// RefusedMapping explains why a map could not be mapped.
func RefusedMapping(fd int, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	e := NewPermissionError(err)
	info, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	switch {
	case strings.Contains(string(info), "frozen:\t1"): // bpf_map_mmap in kernel/bpf/syscall.c
		e.Detail = "the map is frozen (BPF_MAP_FREEZE), but its reader stores in it: do not freeze it"
	case errors.Is(err, syscall.EACCES):
		e.Detail = "the descriptor is read-only or write-only (BPF_F_RDONLY, BPF_F_WRONLY), but its reader stores in the map: open it without these flags"
	default:
		e.Detail = fmt.Sprintf("mapping a map takes no capability: a sandbox forbids it, such as seccomp or an LSM%s", SeccompNote())
	}
	return e
}
