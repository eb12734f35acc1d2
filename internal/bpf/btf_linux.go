package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const kernelBTF = "/sys/kernel/btf/vmlinux"

// KernelVariables returns the BTF type ids of the kernel's per-CPU variables, by which programs
// refer to them. It reads all of the kernel's BTF, which takes milliseconds, and some 10 MiB until
// it returns. It fails with ENOENT without BTF, or such a variable.
func KernelVariables(names ...string) ([]int32, error) {
	btf, free, err := parseKernelBTF()
	if err != nil {
		return nil, err
	}
	defer free()
	ids := make([]int32, len(names))
	for i, name := range names {
		id := btf.find(kindVar, name)
		if id == 0 {
			return nil, fmt.Errorf("no variable %s in %s: %w", name, kernelBTF, syscall.ENOENT)
		}
		ids[i] = int32(id)
	}
	return ids, nil
}

// KernelMembers returns the byte offsets of struct members in the kernel. Each member is {struct,
// member}. Cost and errors are those of KernelVariables.
func KernelMembers(members ...[2]string) ([]int, error) {
	btf, free, err := parseKernelBTF()
	if err != nil {
		return nil, err
	}
	defer free()
	offsets := make([]int, len(members))
	for i, m := range members {
		offset, ok := btf.member(btf.find(kindStruct, m[0]), m[1], 0)
		if !ok {
			return nil, fmt.Errorf("no struct %s with a member %s in %s: %w", m[0], m[1], kernelBTF, syscall.ENOENT)
		}
		offsets[i] = offset
	}
	return offsets, nil
}

// parseKernelBTF has it in memory that free gives back: on Go's heap it would leave that large.
func parseKernelBTF() (b *btf, free func(), err error) {
	f, err := os.Open(kernelBTF)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	data, err := unix.Mmap(-1, 0, int(max(info.Size(), 1)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	free = func() { unix.Munmap(data) }
	if _, err = io.ReadFull(f, data); err == nil {
		b, err = parseBTF(data)
	}
	if err != nil {
		free()
		return nil, nil, fmt.Errorf("%s: %w", kernelBTF, err)
	}
	return b, free, nil
}

// Kinds of types: BTF_KIND_ of include/uapi/linux/btf.h. Each is followed by so many bytes, and so
// many for each of its members.
const (
	kindStruct = 4
	kindUnion  = 5
	kindVar    = 14
)

var following = [...]struct{ bytes, each int }{
	1: {bytes: 4} /* INT */, 2: {} /* PTR */, 3: {bytes: 12} /* ARRAY */, kindStruct: {each: memberSize}, kindUnion: {each: memberSize},
	6: {each: 8} /* ENUM */, 13: {each: 8} /* FUNC_PROTO */, kindVar: {bytes: 4}, 15: {each: 12}, /* DATASEC */
	17: {bytes: 4} /* DECL_TAG */, 19: {each: 12}, /* ENUM64 */
}

const (
	typeSize   = 12 // struct btf_type
	memberSize = 12 // struct btf_member
	deepest    = 16 // anonymous structs within one another
)

// btf is a description of types: struct btf_header and what follows it.
type btf struct {
	types, strings []byte
	at             []uint32 // where each type is, by its id; 0 is void, which has no place
}

var errBTF = errors.New("not the kernel's BTF, or damaged")

func parseBTF(data []byte) (*btf, error) {
	word := binary.NativeEndian.Uint32
	if len(data) < 24 || binary.NativeEndian.Uint16(data) != 0xeb9f {
		return nil, errBTF
	}
	section := func(header int) []byte { // an offset behind the header, and a length
		from, length := uint64(word(data[4:]))+uint64(word(data[header:])), uint64(word(data[header+4:]))
		if from+length > uint64(len(data)) {
			return nil
		}
		return data[from : from+length]
	}
	b := &btf{types: section(8), strings: section(16), at: []uint32{0}}
	for at := 0; at < len(b.types); {
		if at+typeSize > len(b.types) {
			return nil, errBTF
		}
		b.at = append(b.at, uint32(at))
		info := word(b.types[at+4:])
		kind := int(info >> 24 & 0x1f)
		if kind == 0 || kind >= len(following) {
			return nil, fmt.Errorf("type %d is of an unknown kind, %d", len(b.at)-1, kind)
		}
		at += typeSize + following[kind].bytes + following[kind].each*int(info&0xffff)
		if at > len(b.types) {
			return nil, errBTF
		}
	}
	if len(b.at) == 1 {
		return nil, errBTF
	}
	return b, nil
}

// word returns the word at an offset of a type.
func (b *btf) word(id, offset int) uint32 {
	return binary.NativeEndian.Uint32(b.types[int(b.at[id])+offset:])
}

func (b *btf) kind(id int) uint32 { return b.word(id, 4) >> 24 & 0x1f }

// named reports whether the string at an offset is this name.
func (b *btf) named(offset uint32, name string) bool {
	end := uint64(offset) + uint64(len(name))
	return end < uint64(len(b.strings)) && string(b.strings[offset:end]) == name && b.strings[end] == 0
}

// find returns the id of the first type of a kind and name, or 0.
func (b *btf) find(kind uint32, name string) int {
	for id := 1; id < len(b.at); id++ {
		if b.kind(id) == kind && b.named(b.word(id, 0), name) {
			return id
		}
	}
	return 0
}

// member returns the byte offset of a member, also within anonymous structs and unions.
func (b *btf) member(id int, name string, depth int) (int, bool) {
	if id <= 0 || id >= len(b.at) || depth > deepest || b.kind(id) != kindStruct && b.kind(id) != kindUnion {
		return 0, false
	}
	info := b.word(id, 4)
	for i := range int(info & 0xffff) {
		m := typeSize + memberSize*i
		bits := b.word(id, m+8)
		if info>>31 != 0 { // kind_flag: the size of a bit field is above
			bits &= 0xffffff
		}
		called := b.word(id, m)
		if b.named(called, name) {
			return int(bits / 8), true
		}
		if b.named(called, "") {
			if offset, ok := b.member(int(b.word(id, m+4)), name, depth+1); ok {
				return int(bits/8) + offset, true
			}
		}
	}
	return 0, false
}
