//go:build linux && cgo && !perfbuf_nolibbpf

package libbpf

// #include "libbpf.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/ringfold/ringfold/internal/bpf"
)

// result turns a return value of libbpf >= 1.0, 0 or a negative errno, into an error.
func result(call string, ret C.int) error {
	if ret >= 0 {
		return nil
	}
	return &bpf.Error{Call: call, Errno: syscall.Errno(-ret)}
}

// failed turns the errno that accompanies a NULL pointer into an error.
func failed(call string, err error) *bpf.Error {
	var errno syscall.Errno
	errors.As(err, &errno)
	return &bpf.Error{Call: call, Errno: errno}
}

// Available reports whether the program has libbpf.
const Available = true

// PerfBuffer is a struct perf_buffer. It is not safe for concurrent use, and do not
// call its methods after Free.
type PerfBuffer struct {
	pb *C.struct_perf_buffer
}

// Free calls perf_buffer__free: it deletes the rings' entries from the map, unmaps the rings and
// closes their file descriptors. Do not touch memory from Buffer afterwards.
func (p *PerfBuffer) Free() {
	C.perf_buffer__free(p.pb)
	p.pb = nil
}

// EpollFD calls perf_buffer__epoll_fd. The descriptor belongs to libbpf.
func (p *PerfBuffer) EpollFD() int { return int(C.perf_buffer__epoll_fd(p.pb)) }

// BufferCnt calls perf_buffer__buffer_cnt: the number of rings.
func (p *PerfBuffer) BufferCnt() int { return int(C.perf_buffer__buffer_cnt(p.pb)) }

// BufferFD calls perf_buffer__buffer_fd: the perf event of ring i, an index below BufferCnt and not
// a CPU number. The descriptor belongs to libbpf.
func (p *PerfBuffer) BufferFD(i int) (int, error) {
	if err := p.check("perf_buffer__buffer_fd", i); err != nil {
		return -1, err
	}
	fd := C.perf_buffer__buffer_fd(p.pb, C.size_t(i))
	return int(fd), result("perf_buffer__buffer_fd", fd)
}

// Buffer calls perf_buffer__buffer: the memory of ring i, an index below BufferCnt and not a CPU
// number. meta is the metadata page (struct perf_event_mmap_page); data is the ring itself, which
// follows one page later. Both are mapped read-write and shared with the kernel until Free.
func (p *PerfBuffer) Buffer(i int) (meta unsafe.Pointer, data []byte, err error) {
	if err := p.check("perf_buffer__buffer", i); err != nil {
		return nil, nil, err
	}
	var size C.size_t
	ret := C.perf_buffer__buffer(p.pb, C.int(i), &meta, &size)
	if err := result("perf_buffer__buffer", ret); err != nil {
		return nil, nil, err
	}
	// libbpf maps one metadata page and then size bytes; size leaves that page out.
	return meta, unsafe.Slice((*byte)(unsafe.Add(meta, os.Getpagesize())), int(size)), nil
}

// check guards calls by index: libbpf takes a size_t but checks only the upper bound, and
// perf_buffer__buffer(pb, -1) crashes.
func (p *PerfBuffer) check(call string, i int) error {
	if n := p.BufferCnt(); i < 0 || i >= n {
		return fmt.Errorf("%s: ring %d of %d: %w", call, i, n, syscall.EINVAL)
	}
	return nil
}
