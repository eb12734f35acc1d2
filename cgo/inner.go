//go:build linux && cgo

package libbpf

// #include "libbpf.h"
import "C"

import "unsafe"

// MapNextKey calls bpf_map_get_next_key: it stores the key behind key in next, the first one for a nil key. Both have as many
// bytes as the map's keys. After the last key it returns ENOENT. A key that is not in a hash has the first one behind it.
func MapNextKey(mapFD int, key, next []byte) error {
	return result("bpf_map_get_next_key",
		C.bpf_map_get_next_key(C.int(mapFD), unsafe.Pointer(unsafe.SliceData(key)), unsafe.Pointer(unsafe.SliceData(next))))
}

// MapInner calls bpf_map_lookup_elem on a map of maps: the id of the map that it has under a key. It returns ENOENT if there is none.
func MapInner(mapFD int, key []byte) (id int, err error) {
	var value C.__u32
	err = result("bpf_map_lookup_elem", C.bpf_map_lookup_elem(C.int(mapFD), unsafe.Pointer(unsafe.SliceData(key)), unsafe.Pointer(&value)))
	return int(value), err
}

// MapByID calls bpf_map_get_fd_by_id, which takes CAP_SYS_ADMIN. The descriptor is close-on-exec and the caller's to close. It returns ENOENT
// if the map is gone.
func MapByID(id int) (fd int, err error) {
	ret := C.bpf_map_get_fd_by_id(C.__u32(id))
	if err := result("bpf_map_get_fd_by_id", ret); err != nil {
		return -1, err
	}
	return int(ret), nil
}
