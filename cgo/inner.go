//go:build linux && cgo

package libbpf

// #include "libbpf.h"
import "C"

import "unsafe"

// MapNextKey calls bpf_map_get_next_key: it stores the key that follows key in next. The first key
// follows a nil key and, in a hash, a missing key. Both have the size of the map's keys. After the
// last key it returns ENOENT.
func MapNextKey(mapFD int, key, next []byte) error {
	return result("bpf_map_get_next_key",
		C.bpf_map_get_next_key(C.int(mapFD), unsafe.Pointer(unsafe.SliceData(key)), unsafe.Pointer(unsafe.SliceData(next))))
}

// MapInner calls bpf_map_lookup_elem on a map of maps. It returns the id of the map under a key, or
// ENOENT.
func MapInner(mapFD int, key []byte) (id int, err error) {
	var value C.__u32
	err = result("bpf_map_lookup_elem", C.bpf_map_lookup_elem(C.int(mapFD), unsafe.Pointer(unsafe.SliceData(key)), unsafe.Pointer(&value)))
	return int(value), err
}

// MapByID calls bpf_map_get_fd_by_id, which needs CAP_SYS_ADMIN. The descriptor is close-on-exec;
// the caller closes it. MapByID returns ENOENT if the map is gone.
func MapByID(id int) (fd int, err error) {
	ret := C.bpf_map_get_fd_by_id(C.__u32(id))
	if err := result("bpf_map_get_fd_by_id", ret); err != nil {
		return -1, err
	}
	return int(ret), nil
}
