package bpf

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is bpf(2) with a command and its part of union bpf_attr. The structs that it gets have the
// kernel's layout where pointers have 8 bytes: callers refuse 32-bit programs first.
//
// A pointer in attr is an unsafe.Pointer, so it keeps its memory alive until the kernel is done:
// the conversion in the argument list does that for attr (package unsafe, rule 4), and neither
// memory moves during a system call.
func call[T any](command uintptr, name string, attr *T) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
	if errno != 0 {
		return -1, &Error{Call: "bpf(" + name + ")", Errno: errno}
	}
	return int(r), nil
}

// charged makes a call that counts memory against RLIMIT_MEMLOCK before Linux 5.11. If that is why
// the kernel refuses, it raises the limit as far as the process may, which libbpf does too, and
// tries again.
func charged(create func() (int, error)) (int, error) {
	fd, err := create()
	if errors.Is(err, unix.EPERM) && OlderThan(5, 11) && raiseMemlock() {
		fd, err = create()
	}
	return fd, err
}

// raiseMemlock reports whether it has raised the limit, once for a process.
func raiseMemlock() (raised bool) {
	memlock.Do(func() {
		all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if raised = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &all) == nil; raised {
			return
		}
		var l unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur < l.Max {
			raised = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: l.Max, Max: l.Max}) == nil
		}
	})
	return raised
}

var memlock sync.Once

// OlderThan reports whether the kernel's version is below this one.
func OlderThan(major, minor int) bool {
	var u unix.Utsname
	var a, b int
	if unix.Uname(&u) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	return n == 2 && (a < major || a == major && b < minor)
}

// objName is a name as the kernel stores it: char[BPF_OBJ_NAME_LEN], ended by 0.
func objName(name string) (n [16]byte) {
	copy(n[:len(n)-1], name)
	return n
}
