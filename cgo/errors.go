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
	Call  string        // the libbpf function
	Errno syscall.Errno // 0 if libbpf gave none
}

func (e *Error) Error() string {
	if e.Errno == 0 {
		return e.Call + " failed without an errno"
	}
	return e.Call + ": " + e.Errno.Error()
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }
