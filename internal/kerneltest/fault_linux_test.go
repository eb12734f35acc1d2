//go:build cgo

package kerneltest

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Those calls fail that are to, of that thread and kind; all others are made.
func TestFail(t *testing.T) {
	dup := func() error {
		fd, err := unix.FcntlInt(uintptr(os.Stdin.Fd()), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	var errs []error
	var status, elsewhere error
	calls := Fail(t, CallDup, syscall.ENFILE, func(n int) bool { return n%2 == 0 }, func() {
		for range 5 {
			errs = append(errs, dup())
		}
		_, status = unix.FcntlInt(uintptr(os.Stdin.Fd()), unix.F_GETFD, 0)
		other := make(chan error)
		go func() {
			runtime.LockOSThread()
			for range 2 {
				elsewhere = dup()
			}
			other <- elsewhere
		}()
		<-other
	})
	require.Equal(t, 5, calls)
	require.Equal(t, []error{nil, syscall.ENFILE, nil, syscall.ENFILE, nil}, errs)
	require.NoError(t, status)
	require.NoError(t, elsewhere)

	calls = Fail(t, CallMmapFile, syscall.EPERM, func(int) bool { return true }, func() {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON) // of no file
		errs[0] = err
	})
	require.Zero(t, calls)
	require.NoError(t, errs[0])
	require.NoError(t, dup())
}
