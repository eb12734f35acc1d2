//go:build linux && cgo

package libbpf

// #include "libbpf.h"
import "C"

import "unsafe"

// MapSizes calls bpf_obj_get_info_by_fd. It returns the sizes of a map's keys and values, in bytes.
func MapSizes(mapFD int) (key, value int, err error) {
	var info C.struct_bpf_map_info
	size := C.__u32(unsafe.Sizeof(info))
	if err := result("bpf_obj_get_info_by_fd", C.bpf_obj_get_info_by_fd(C.int(mapFD), unsafe.Pointer(&info), &size)); err != nil {
		return 0, 0, err
	}
	return int(info.key_size), int(info.value_size), nil
}

// MapLookup calls bpf_map_lookup_elem on a map with 4-byte keys and 8-byte values. values must have
// room for one or, if the map is per CPU, for one per possible CPU: the kernel does not know its
// length.
func MapLookup(mapFD int, key uint32, values []uint64) error {
	return result("bpf_map_lookup_elem",
		C.bpf_map_lookup_elem(C.int(mapFD), unsafe.Pointer(&key), unsafe.Pointer(unsafe.SliceData(values))))
}

// MapSet calls bpf_map_update_elem on a map with 4-byte keys and 8-byte values.
func MapSet(mapFD int, key uint32, value uint64) error {
	return result("bpf_map_update_elem",
		C.bpf_map_update_elem(C.int(mapFD), unsafe.Pointer(&key), unsafe.Pointer(&value), C.BPF_ANY))
}

// RecursionMisses calls bpf_obj_get_info_by_fd on a program. It returns the number of runs that the
// kernel skipped because the CPU was already running it: 0 before Linux 5.12.
func RecursionMisses(progFD int) (uint64, error) {
	var info C.struct_bpf_prog_info
	size := C.__u32(unsafe.Sizeof(info))
	if err := result("bpf_obj_get_info_by_fd", C.bpf_obj_get_info_by_fd(C.int(progFD), unsafe.Pointer(&info), &size)); err != nil {
		return 0, err
	}
	return uint64(info.recursion_misses), nil
}
