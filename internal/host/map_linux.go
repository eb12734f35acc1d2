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

// DupMap duplicates a map's descriptor, so that the map stays open, and returns the kernel's
// description of it.
func DupMap(mapFD int) (fd int, m Map, err error) {
	if fd, err = unix.FcntlInt(uintptr(mapFD), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		if !errors.Is(err, syscall.EBADF) {
			return -1, m, fmt.Errorf("duplicating map fd %d: %w", mapFD, err)
		}
		return -1, m, fmt.Errorf("map fd %d is not an open file descriptor: %w", mapFD, err)
	}
	info, err := bpf.GetMapInfo(fd)
	name := LinkName(fd)
	if errors.Is(err, syscall.EINVAL) || err == nil && name != "bpf-map" && strings.HasPrefix(name, "bpf-") {
		// The kernel also answers for programs and links, in structs of their own.
		err = fmt.Errorf("fd %d is %s, not a BPF map: pass the map's descriptor: %w", mapFD, name, syscall.EINVAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, m, err
	}
	return fd, Map(info), nil
}

// LinkName returns the target of a descriptor's link in /proc.
func LinkName(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "something else"
	}
	return strings.TrimPrefix(name, "anon_inode:")
}
