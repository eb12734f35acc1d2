//go:build cgo

// Package bpfload explains why a BPF program of an example or of the tool does not load, and
// suggests remedies.
package bpfload

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/aquasecurity/libbpfgo"
	"golang.org/x/sys/unix"
)

// Listen keeps libbpf's warnings from the terminal, and saves them for Explain. Call it before
// opening a module.
func Listen() {
	warnings.reset()
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: warnings.log})
}

// Error is a failure to load or attach programs, with advice for the user.
type Error struct {
	Err error  // the cause
	Fix string // a sentence without its full stop
}

func (e *Error) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Fix) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Explain turns a failure to load or attach programs into an [Error] with advice for the user.
// Without known advice, it adds libbpf's warnings since Listen.
func Explain(err error) error {
	if missing := missingCaps(); len(missing) > 0 && errors.Is(err, fs.ErrPermission) {
		program, _ := os.Executable() // setcap wants a path
		return &Error{fmt.Errorf("%w: uid %d lacks %s", err, os.Geteuid(), strings.Join(missing, " and ")),
			fmt.Sprintf("run it as root (sudo), or grant that: setcap cap_bpf,cap_perfmon+ep %s (before Linux 5.8, or where kernel.perf_event_paranoid is above 2: cap_sys_admin+ep)",
				cmp.Or(program, os.Args[0]))}
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, though uid %d has the capabilities: a sandbox forbids it, such as seccomp or a container%s", err, os.Geteuid(), &warnings)
	}
	if noTypes := BTF(); noTypes != nil {
		return noTypes
	}
	return fmt.Errorf("%w%s", err, &warnings)
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

// warnings keeps libbpf's warnings for errors that need them.
var warnings logger

type logger struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logger) log(level int, msg string) {
	if level > libbpfgo.LibbpfWarnLevel {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(msg)
}

func (l *logger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// String is the warnings as lines of their own, to follow an error.
func (l *logger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(l.text.String())
}
