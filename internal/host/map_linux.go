package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

// Refuse32Bit refuses 32-bit programs; 32-bit kernels run no others. On these kernels ring
// positions have 32 bits and wrap after 4 GiB: they are an unsigned long in perf_output_put_handle
// of kernel/events/ring_buffer.c and in kernel/bpf/ringbuf.c.
func Refuse32Bit() error {
	if strconv.IntSize == 64 {
		return nil
	}
	return fmt.Errorf("this is a 32-bit program (GOARCH=%s), and 32-bit kernels count a ring's bytes to 4 GiB only: "+
		"build for a 64-bit GOARCH, such as amd64 or arm64: %w", runtime.GOARCH, errors.ErrUnsupported)
}

// DupMap is DupObject of a map, and returns the kernel's description of it.
func DupMap(mapFD int) (fd int, m Map, err error) {
	fd, err = DupObject(mapFD, "map", func(fd int) error {
		info, err := bpf.GetMapInfo(fd)
		m = Map(info)
		return err
	})
	return fd, m, err
}

// DupObject duplicates the descriptor of a BPF object of this kind, map or prog, so that the object
// stays. ask asks the kernel about it.
func DupObject(of int, kind string, ask func(fd int) error) (fd int, err error) {
	if fd, err = unix.FcntlInt(uintptr(of), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		if !errors.Is(err, syscall.EBADF) {
			return -1, fmt.Errorf("duplicating %s fd %d: %w", kind, of, err)
		}
		return -1, fmt.Errorf("%s fd %d is not an open file descriptor: %w", kind, of, err)
	}
	name := linkName(fd)
	if err = ask(fd); errors.Is(err, syscall.EINVAL) || err == nil && name != "bpf-"+kind && strings.HasPrefix(name, "bpf-") {
		// The kernel answers for every kind of BPF object, each with its own struct.
		err = fmt.Errorf("fd %d is %s, not a BPF %s: pass the %[3]s's descriptor: %w", of, name, kind, syscall.EINVAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// linkName returns the target of a descriptor's link in /proc.
func linkName(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "something else"
	}
	return strings.TrimPrefix(name, "anon_inode:")
}
