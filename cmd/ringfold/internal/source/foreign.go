package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// mostBTF is how many bytes a recording's BTF may have, and how many all names that it refers to: that of programs has some 100,000.
const mostBTF = 4 << 20

// loadForeign returns the types in the BTF of a recording, in which nothing is believed. The kernel refuses BTF that is not sound;
// cilium/ebpf takes such as well, and follows it as deep as it goes. So this checks it first, and takes out the references that lead out of
// payloads: targets of pointers, functions, variables, tags.
func loadForeign(blob []byte) (*btf.Spec, error) {
	if len(blob) > mostBTF {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(blob), mostBTF)
	}
	header := make([]uint32, 6) // magic, version and flags; the header's length; offset and length of types; the same of names
	if len(blob) < 4*len(header) {
		return nil, fmt.Errorf("it has %d bytes, fewer than its header", len(blob))
	}
	if binary.NativeEndian.Uint16(blob) != 0xeb9f {
		return nil, errors.New("it does not begin as BTF of this machine's byte order does")
	}
	blob = bytes.Clone(blob)
	for i := range header {
		header[i] = binary.NativeEndian.Uint32(blob[4*i:])
	}
	section := func(at, size uint32) ([]byte, error) {
		first, end := uint64(header[1])+uint64(at), uint64(header[1])+uint64(at)+uint64(size)
		if end > uint64(len(blob)) {
			return nil, fmt.Errorf("a section of it ends at %d, and it has %d bytes", end, len(blob))
		}
		return blob[first:end], nil
	}
	types, err := section(header[2], header[3])
	if err != nil {
		return nil, err
	}
	names, err := section(header[4], header[5])
	if err != nil {
		return nil, err
	}
	f := foreign{names: names, parts: [][]uint32{nil}} // type 0 is void
	for len(types) > 0 {
		n, err := f.next(types)
		if err != nil {
			return nil, fmt.Errorf("type %d %w", len(f.parts), err)
		}
		types = types[n:]
	}
	f.depth = make([]int, len(f.parts))
	for id := range f.parts {
		if err := f.descend(uint32(id), 0); err != nil {
			return nil, err
		}
	}
	return btf.LoadSpecFromReader(bytes.NewReader(blob))
}

type foreign struct {
	names []byte
	named int        // bytes of all names so far
	parts [][]uint32 // the types that a type has within it, by its id
	depth []int      // how deep these are nested; -1: being looked at
}

// btfKind is what comes behind a struct btf_type of a kind: elements, as many as it says, or one.
type btfKind struct {
	size  int   // of an element
	one   bool  // there is one
	name  bool  // an element begins with its name
	types []int // where an element has types
	typed bool  // the struct itself has one
	part  bool  // these types lie in the same bytes as this one
}

// The numbers are those of include/uapi/linux/btf.h, BTF_KIND_*.
var btfKinds = [...]btfKind{
	1:  {size: 4, one: true}, // an integer
	2:  {typed: true},        // a pointer
	3:  {size: 12, one: true, types: []int{0, 4}, part: true},
	4:  {size: 12, name: true, types: []int{4}, part: true}, // a struct
	5:  {size: 12, name: true, types: []int{4}, part: true}, // a union
	6:  {size: 8, name: true},                               // an enum
	7:  {},                                                  // a forward declaration
	8:  {typed: true, part: true},                           // a typedef
	9:  {typed: true, part: true},                           // volatile
	10: {typed: true, part: true},                           // const
	11: {typed: true, part: true},                           // restrict
	12: {typed: true},                                       // a function
	13: {size: 8, name: true, types: []int{4}, typed: true}, // its type
	14: {size: 4, one: true, typed: true},                   // a variable
	15: {size: 12, types: []int{0}},                         // a section of those
	16: {},                                                  // a float
	17: {size: 4, one: true, typed: true},                   // a tag of a declaration
	18: {typed: true, part: true},                           // a tag of a type
	19: {size: 12, name: true},                              // an enum of 64 bits
}

// next notes the type that b begins with, and returns how long it is.
func (f *foreign) next(b []byte) (size int, err error) {
	const own = 12 // struct btf_type: name, info, size or type
	if len(b) < own {
		return 0, errors.New("is cut off")
	}
	info := binary.NativeEndian.Uint32(b[4:])
	number, count := info>>24&0x1f, int(info&0xffff)
	if number == 0 || int(number) >= len(btfKinds) {
		return 0, fmt.Errorf("is of the unknown kind %d", number)
	}
	kind := btfKinds[number]
	if kind.one {
		count = 1
	}
	if size = own + count*kind.size; size > len(b) {
		return 0, errors.New("is cut off")
	}
	if err := f.name(b); err != nil {
		return 0, err
	}
	var parts []uint32
	refer := func(b []byte) {
		if kind.part {
			parts = append(parts, binary.NativeEndian.Uint32(b))
		} else {
			clear(b[:4]) // void
		}
	}
	if kind.typed {
		refer(b[8:])
	}
	for at := own; at < size && kind.size > 0; at += kind.size {
		if kind.name {
			if err := f.name(b[at:]); err != nil {
				return 0, err
			}
		}
		for _, in := range kind.types {
			refer(b[at+in:])
		}
	}
	f.parts = append(f.parts, parts)
	return size, nil
}

// name checks the name that something begins with.
func (f *foreign) name(b []byte) error {
	at := binary.NativeEndian.Uint32(b)
	if at == 0 {
		return nil
	}
	n := -1
	if uint64(at) < uint64(len(f.names)) && f.names[at-1] == 0 {
		n = bytes.IndexByte(f.names[at:], 0)
	}
	if n < 0 {
		return fmt.Errorf("has its name at %d, where none is", at)
	}
	if f.named += n; f.named > mostBTF {
		return fmt.Errorf("and those before it have names of more than %d bytes", mostBTF)
	}
	return nil
}

// descend finds out how deep the types within a type are nested.
func (f *foreign) descend(id uint32, level int) error {
	switch {
	case uint64(id) >= uint64(len(f.parts)):
		return fmt.Errorf("type %d is not there: there are %d", id, len(f.parts)-1)
	case f.depth[id] < 0:
		return fmt.Errorf("type %d %w", id, errWithin)
	case level+f.depth[id] > mostDepth:
		return fmt.Errorf("type %d %w", id, errDeep)
	case f.depth[id] > 0:
		return nil
	}
	f.depth[id] = -1
	depth := 0
	for _, part := range f.parts[id] {
		if err := f.descend(part, level+1); err != nil {
			return err
		}
		depth = max(depth, f.depth[part])
	}
	f.depth[id] = depth + 1
	return nil
}
