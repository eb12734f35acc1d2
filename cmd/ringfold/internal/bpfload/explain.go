// Package bpfload loads and attaches the tool's BPF programs, and says what to do where that fails.
package bpfload

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Error is a failure to load or attach programs, with advice for the user.
type Error struct {
	Err error  // the cause
	Fix string // a sentence without its full stop
}

func (e *Error) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Fix) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// explain turns a failure to load or attach programs into an [Error] with advice for the user, if
// there is any.
func explain(err error) error {
	if errno := syscall.Errno(0); errors.Is(err, fs.ErrPermission) && errors.As(err, &errno) {
		err = errno // cilium/ebpf would send everybody after RLIMIT_MEMLOCK
	}
	if missing := missingCaps(); len(missing) > 0 && errors.Is(err, fs.ErrPermission) {
		program, _ := os.Executable() // setcap wants a path
		return &Error{fmt.Errorf("%w: uid %d lacks %s", err, os.Geteuid(), strings.Join(missing, " and ")),
			fmt.Sprintf("run it as root (sudo), or grant that: setcap cap_bpf,cap_perfmon+ep %s (before Linux 5.8, or where kernel.perf_event_paranoid is above 2: cap_sys_admin+ep)",
				cmp.Or(program, os.Args[0]))}
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, though uid %d has the capabilities: a sandbox forbids it, such as seccomp or a container", err, os.Geteuid())
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return &Error{err, "raise the limit on open files (ulimit -n, LimitNOFILE=)"}
	}
	if noTypes := BTF(); noTypes != nil {
		return noTypes
	}
	return err
}

// BTF says why there is no description of the kernel's types, as an [Error]; nil if there is one.
func BTF() error {
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	if err == nil {
		return nil
	}
	if _, mounted := os.Stat("/sys/kernel"); mounted != nil {
		return &Error{fmt.Errorf("the kernel's types (BTF) cannot be seen: %w", err), "mount sysfs on /sys"}
	}
	return &Error{fmt.Errorf("the kernel has no BTF, the description of its types: %w", err),
		"it takes one built with CONFIG_DEBUG_INFO_BTF=y, as those of most distributions are"}
}

// missingCaps names the capabilities that this thread lacks.
func missingCaps() (names []string) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&header, &caps[0]) != nil {
		return nil
	}
	has := func(c int) bool { return caps[c/32].Effective>>(c%32)&1 != 0 }
	if has(unix.CAP_SYS_ADMIN) { // includes the others
		return nil
	}
	if !has(unix.CAP_BPF) {
		names = append(names, "CAP_BPF")
	}
	if !has(unix.CAP_PERFMON) {
		names = append(names, "CAP_PERFMON")
	}
	return names
}
