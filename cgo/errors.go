package libbpf

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrUnsupported is returned by every call when the program was built without cgo, or for another
// system than Linux.
var ErrUnsupported = fmt.Errorf("ringfold: perf_buffer needs Linux and a build with cgo (CGO_ENABLED=1): %w", errors.ErrUnsupported)

// Error is a failed libbpf call. errors.Is sees through it to the errno, and by way of that to
// fs.ErrPermission and its like.
type Error struct {
	Call   string        // the libbpf function
	Detail string        // what libbpf said of it, for example "failed to mmap perf buffer on cpu #1"; often empty
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
