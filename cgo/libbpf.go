//go:build linux && cgo

package libbpf

/*
#include <errno.h>
#include <stdlib.h>
#include "libbpf.h"

// bpf_map_get_info_by_fd is newer than libbpf 1.0; this is the older name of the same call.
static int ringfold_map_info(int fd, struct bpf_map_info *info)
{
	__u32 len = sizeof(*info);

	return bpf_obj_get_info_by_fd(fd, info, &len);
}

static int ringfold_map_create(int type, const char *name, __u32 key_size, __u32 value_size, __u32 max_entries,
                               __u32 inner_map_fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = inner_map_fd);

	return bpf_map_create(type, name, key_size, value_size, max_entries, &opts);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// result turns a return value of libbpf >= 1.0, 0 or a negative errno, into an error.
func result(call string, ret C.int) error {
	if ret >= 0 {
		return nil
	}
	return &Error{Call: call, Errno: syscall.Errno(-ret)}
}

// failed turns the errno that accompanies a NULL pointer into an error.
func failed(call string, err error) *Error {
	var errno syscall.Errno
	errors.As(err, &errno)
	return &Error{Call: call, Errno: errno}
}

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

// MapCreate calls bpf_map_create and returns the new map's descriptor, which is close-on-exec; the
// caller closes it. mapType is enum bpf_map_type. innerFD is a template for the maps in a map of
// maps, which keeps no reference to it; 0 for other types.
func MapCreate(mapType int, name string, keySize, valueSize, maxEntries, innerFD int) (int, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	fd := C.ringfold_map_create(C.int(mapType), cname, C.__u32(keySize), C.__u32(valueSize), C.__u32(maxEntries), C.__u32(innerFD))
	if err := result("bpf_map_create", fd); err != nil {
		return -1, err
	}
	return int(fd), nil
}

// MapUpdate calls bpf_map_update_elem on a map with 4-byte keys and values. In a perf event array,
// key is a CPU and value the file descriptor of a perf event; in an array of maps, value is that of
// a map, and the call returns after an RCU grace period.
func MapUpdate(mapFD int, key, value uint32) error {
	return result("bpf_map_update_elem",
		C.bpf_map_update_elem(C.int(mapFD), unsafe.Pointer(&key), unsafe.Pointer(&value), C.BPF_ANY))
}

// MapDelete calls bpf_map_delete_elem on a map with 4-byte keys.
func MapDelete(mapFD int, key uint32) error {
	return result("bpf_map_delete_elem", C.bpf_map_delete_elem(C.int(mapFD), unsafe.Pointer(&key)))
}

// GetMapInfo calls bpf_obj_get_info_by_fd.
func GetMapInfo(mapFD int) (MapInfo, error) {
	var info C.struct_bpf_map_info
	if err := result("bpf_obj_get_info_by_fd", C.ringfold_map_info(C.int(mapFD), &info)); err != nil {
		return MapInfo{}, err
	}
	return MapInfo{
		ID:         int(info.id),
		Type:       int(info._type),
		Name:       C.GoString(&info.name[0]),
		MaxEntries: int(info.max_entries),
		Flags:      int(info.map_flags),
	}, nil
}
