package libbpf

import (
	"errors"
	"fmt"
	"syscall"
)

// Every call returns ErrUnsupported if the program was built without cgo, or for a system other
// than Linux.
var ErrUnsupported = fmt.Errorf("ringfold: perf_buffer needs Linux and a build with cgo (CGO_ENABLED=1): %w", errors.ErrUnsupported)

// Error is a failed libbpf call. errors.Is matches its errno, and thus fs.ErrPermission and the
// like.
type Error struct {
	Call   string        // the libbpf function
	Detail string        // libbpf's message, like "failed to mmap perf buffer on cpu #1"; often empty
	Errno  syscall.Errno // 0 if libbpf gave none
}

func (e *Error) Error() string {
	s := e.Call
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Errno == 0 {
		return s + " failed without an errno"
	}
	return s + ": " + e.Errno.Error()
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }
