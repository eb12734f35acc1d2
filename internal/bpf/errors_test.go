package bpf_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/stretchr/testify/require"
)

// requireErrno requires an *Error of a call, and that errors.Is sees the errno. It returns its
// detail.
func requireErrno(t *testing.T, err error, call string, errnos ...syscall.Errno) (detail string) {
	t.Helper()
	var e *bpf.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, call, e.Call)
	require.Contains(t, errnos, e.Errno)
	require.ErrorIs(t, err, e.Errno)
	if e.Detail != "" {
		call += ": " + e.Detail
	}
	require.Equal(t, call+": "+e.Errno.Error(), err.Error())
	return e.Detail
}

func TestError(t *testing.T) {
	err := error(&bpf.Error{Call: "f", Errno: syscall.EPERM})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.EqualError(t, err, "f: operation not permitted")
	require.EqualError(t, &bpf.Error{Call: "f"}, "f failed without an errno")
	require.EqualError(t, &bpf.Error{Call: "f", Detail: "failed to mmap", Errno: syscall.EPERM}, "f: failed to mmap: operation not permitted")
}
