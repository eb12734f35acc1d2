package bpf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// MapCreate calls BPF_MAP_CREATE and returns the new map's descriptor, which is close-on-exec; the
// caller closes it. mapType is enum bpf_map_type. innerFD is a template for the maps in a map of
// maps, which keeps no reference to it; 0 for other types.
func MapCreate(mapType int, name string, keySize, valueSize, maxEntries, innerFD int) (int, error) {
	attr := struct {
		mapType, keySize, valueSize, maxEntries, flags, innerFD, node uint32
		name                                                          [16]byte
	}{
		mapType: uint32(mapType), keySize: uint32(keySize), valueSize: uint32(valueSize), maxEntries: uint32(maxEntries),
		innerFD: uint32(innerFD), name: objName(name),
	}
	return charged(func() (int, error) { return call(unix.BPF_MAP_CREATE, "BPF_MAP_CREATE", &attr) })
}

// element is what calls on a map's elements take.
type element struct {
	mapFD uint32
	_     uint32
	key   unsafe.Pointer
	value unsafe.Pointer // or the next key
	_     uint64         // flags
}

func onElement(command uintptr, name string, mapFD int, key, value unsafe.Pointer) error {
	_, err := call(command, name, &element{mapFD: uint32(mapFD), key: key, value: value})
	return err
}

// MapUpdate calls BPF_MAP_UPDATE_ELEM on a map with 4-byte keys and values. In a perf event array,
// key is a CPU and value the file descriptor of a perf event; in an array of maps, value is that of
// a map, and the call returns after an RCU grace period.
func MapUpdate(mapFD int, key, value uint32) error {
	return onElement(unix.BPF_MAP_UPDATE_ELEM, "BPF_MAP_UPDATE_ELEM", mapFD, unsafe.Pointer(&key), unsafe.Pointer(&value))
}

// MapSet calls BPF_MAP_UPDATE_ELEM on a map with 4-byte keys and values of 8-byte words. There must
// be all words of a value or, if the map is per CPU, of one per possible CPU: the kernel does not
// know how many there are.
func MapSet(mapFD int, key uint32, words ...uint64) error {
	return onElement(unix.BPF_MAP_UPDATE_ELEM, "BPF_MAP_UPDATE_ELEM", mapFD, unsafe.Pointer(&key), unsafe.Pointer(unsafe.SliceData(words)))
}

// MapDelete calls BPF_MAP_DELETE_ELEM on a map with 4-byte keys.
func MapDelete(mapFD int, key uint32) error {
	return onElement(unix.BPF_MAP_DELETE_ELEM, "BPF_MAP_DELETE_ELEM", mapFD, unsafe.Pointer(&key), nil)
}

// MapLookup calls BPF_MAP_LOOKUP_ELEM on a map with 4-byte keys and 8-byte values. values must have
// room for one or, if the map is per CPU, for one per possible CPU: the kernel does not know its
// length.
func MapLookup(mapFD int, key uint32, values []uint64) error {
	return onElement(unix.BPF_MAP_LOOKUP_ELEM, "BPF_MAP_LOOKUP_ELEM", mapFD, unsafe.Pointer(&key), unsafe.Pointer(unsafe.SliceData(values)))
}

// MapNextKey calls BPF_MAP_GET_NEXT_KEY: it stores the key that follows key in next. The first key
// follows a nil key and, in a hash, a missing key. Both have the size of the map's keys. After the
// last key it returns ENOENT.
func MapNextKey(mapFD int, key, next []byte) error {
	return onElement(unix.BPF_MAP_GET_NEXT_KEY, "BPF_MAP_GET_NEXT_KEY", mapFD, unsafe.Pointer(unsafe.SliceData(key)), unsafe.Pointer(unsafe.SliceData(next)))
}

// MapInner calls BPF_MAP_LOOKUP_ELEM on a map of maps. It returns the id of the map under a key, or
// ENOENT.
func MapInner(mapFD int, key []byte) (id int, err error) {
	var value uint32
	err = onElement(unix.BPF_MAP_LOOKUP_ELEM, "BPF_MAP_LOOKUP_ELEM", mapFD, unsafe.Pointer(unsafe.SliceData(key)), unsafe.Pointer(&value))
	return int(value), err
}

// MapByID calls BPF_MAP_GET_FD_BY_ID, which needs CAP_SYS_ADMIN. The descriptor is close-on-exec;
// the caller closes it. MapByID returns ENOENT if the map is gone.
func MapByID(id int) (fd int, err error) {
	attr := struct{ id, nextID, flags uint32 }{id: uint32(id)}
	return call(unix.BPF_MAP_GET_FD_BY_ID, "BPF_MAP_GET_FD_BY_ID", &attr)
}

// GetMapInfo calls BPF_OBJ_GET_INFO_BY_FD.
func GetMapInfo(mapFD int) (MapInfo, error) {
	var info struct { // the beginning of struct bpf_map_info
		mapType, id, keySize, valueSize, maxEntries, flags uint32
		name                                               [16]byte
	}
	if err := getInfo(mapFD, &info); err != nil {
		return MapInfo{}, err
	}
	return MapInfo{
		ID:         int(info.id),
		Type:       int(info.mapType),
		Name:       unix.ByteSliceToString(info.name[:]),
		KeySize:    int(info.keySize),
		ValueSize:  int(info.valueSize),
		MaxEntries: int(info.maxEntries),
		Flags:      int(info.flags),
	}, nil
}

// RecursionMisses calls BPF_OBJ_GET_INFO_BY_FD on a program. It returns the number of runs that the
// kernel skipped because the CPU was already running it: 0 before Linux 5.12.
func RecursionMisses(progFD int) (uint64, error) {
	var info struct { // the beginning of struct bpf_prog_info
		_      [208]byte
		misses uint64
	}
	err := getInfo(progFD, &info)
	return info.misses, err
}

// getInfo fills a struct, or as much of it as the kernel knows.
func getInfo[T any](fd int, info *T) error {
	attr := struct {
		fd, size uint32
		info     unsafe.Pointer
	}{fd: uint32(fd), size: uint32(unsafe.Sizeof(*info)), info: unsafe.Pointer(info)}
	_, err := call(unix.BPF_OBJ_GET_INFO_BY_FD, "BPF_OBJ_GET_INFO_BY_FD", &attr)
	return err
}
