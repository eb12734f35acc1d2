package perfevent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	libbpf "github.com/ringfold/ringfold/cgo"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/kernel"
	"golang.org/x/sys/unix"
)

// Map is a perf event array in which rings are to be opened. It is a kernel.Opener.
type Map struct {
	FD       int  // the user's, which is duplicated
	Standard bool // perf_buffer__new is to set the rings up: those of all CPUs that are online, without times

	fd    int
	info  mapInfo
	watch *cpuWatch // nil: the descriptor is not duplicated yet
}

// Online returns the CPUs that are online, if the map is one to read.
func (m *Map) Online() (online []int, err error) {
	if strconv.IntSize < 64 {
		return nil, err32Bit
	}
	if m.watch == nil {
		if m.fd, m.info, err = dupMap(m.FD); err != nil {
			return nil, err
		}
		m.watch = watchCPUs() // before the list is read
	}
	if online, err = cpulist.Online(cpulist.Dir); err != nil {
		err = fmt.Errorf("perfbuf.Open: %w", err)
		if errors.Is(err, syscall.EMFILE) {
			err = explain(err, 0)
		}
	}
	return online, err
}

// err32Bit refuses 32-bit programs, which alone run on 32-bit kernels. There data_head is an unsigned long
// (perf_output_put_handle, kernel/events/ring_buffer.c), and starts anew after 4 GiB.
var err32Bit = fmt.Errorf("perfbuf.Open: this is a 32-bit program (GOARCH=%s), and 32-bit kernels count a ring's bytes to 4 GiB only: "+
	"build for a 64-bit GOARCH, such as amd64 or arm64: %w", runtime.GOARCH, errors.ErrUnsupported)

// Close is for a Map of which Open has not succeeded.
func (m *Map) Close() {
	if m.watch != nil {
		m.watch.close()
		unix.Close(m.fd)
	}
}

// Open opens rings, and stores them in the map. From then on the map is theirs. The error wraps ENODEV if a CPU has gone offline.
func (m *Map) Open(setup kernel.Setup) (kernel.Kernel, error) {
	p, err := openEvents(m, setup)
	if err != nil {
		var wrong *MapError
		if errors.As(err, &wrong) {
			return nil, err
		}
		return nil, explain(fmt.Errorf("perfbuf.Open: %w", err), setup.RingBytes)
	}
	return p, nil
}

// dupMap duplicates a map's descriptor and makes sure that the map is one to read. libbpf keeps the
// descriptor it is given, so it must be one that stays open.
func dupMap(mapFD int) (int, mapInfo, error) {
	fail := func(err error) (int, mapInfo, error) { return -1, mapInfo{}, err }
	fd, err := unix.FcntlInt(uintptr(mapFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		if !errors.Is(err, syscall.EBADF) {
			return fail(explain(fmt.Errorf("perfbuf.Open: duplicating map fd %d: %w", mapFD, err), 0))
		}
		return fail(fmt.Errorf("perfbuf.Open: map fd %d is not an open file descriptor: %w", mapFD, err))
	}
	info, err := libbpf.GetMapInfo(fd)
	name := linkName(fd)
	switch m := mapInfo(info); {
	case errors.Is(err, syscall.EINVAL), err == nil && name != "bpf-map" && strings.HasPrefix(name, "bpf-"):
		// The kernel also answers for programs and links, in structs of their own.
		err = fmt.Errorf("perfbuf.Open: fd %d is %s, not a BPF map: pass the map's descriptor: %w", mapFD, name, syscall.EINVAL)
	case err != nil:
		err = explain(fmt.Errorf("perfbuf.Open: %w", err), 0)
	default:
		if err = m.check(); err == nil {
			return fd, m, nil
		}
	}
	unix.Close(fd)
	return fail(err)
}

// linkName says what a descriptor refers to, as /proc does.
func linkName(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "something else"
	}
	return strings.TrimPrefix(name, "anon_inode:")
}
