package source

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/cilium/ebpf/btf"
)

// Decoder turns payloads into fields, by a type of BTF.
type Decoder struct {
	Name  string // such as "struct event"
	Size  int
	typ   btf.Type // *btf.Struct or *btf.Union
	named btf.Type // the same, or a typedef of it

	exact   bool     // payloads are not padded: of ring buffers
	fields  []string // names, those of structs in it left out
	members map[string]btf.Type
}

// Decode returns the fields that b has, which may be fewer than the type has. What it returns is a copy.
func (d *Decoder) Decode(b []byte) Fields {
	f := decodeMembers(Fields{}, d.typ, b)
	// A record is padded to 8 bytes, with 4 for its length: see perfbuf.Event.Len.
	padded := (d.Size+4+7)&^7 - 4
	if d.exact {
		padded = d.Size
	}
	if len(b) > padded {
		f = append(f, Field{"(more bytes)", raw(bytes.Clone(b[d.Size:]))})
	}
	return f
}

// decodeMembers appends the fields of a struct or union that begins with b.
func decodeMembers(f Fields, typ btf.Type, b []byte) Fields {
	var members []btf.Member
	switch t := typ.(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		typ := btf.UnderlyingType(m.Type)
		if m.BitfieldSize > 0 {
			if v, ok := decodeBits(typ, b, uint(m.Offset), uint(m.BitfieldSize)); ok {
				f = append(f, Field{m.Name, v})
			}
			continue
		}
		at := int(m.Offset.Bytes())
		if at >= len(b) {
			continue // the payload is shorter
		}
		if _, anonymous := typ.(*btf.Struct); m.Name == "" && anonymous {
			f = decodeMembers(f, typ, b[at:])
		} else if _, anonymous := typ.(*btf.Union); m.Name == "" && anonymous {
			f = decodeMembers(f, typ, b[at:])
		} else if v, ok := decodeValue(typ, b[at:]); ok {
			f = append(f, Field{m.Name, v})
		}
	}
	return f
}

// decodeValue returns what b begins with. ok is false if that is not all there, or nothing that has a value.
func decodeValue(typ btf.Type, b []byte) (v Value, ok bool) {
	typ = btf.UnderlyingType(typ)
	if arr, ok := typ.(*btf.Array); ok {
		return decodeArray(arr, b)
	}
	size, err := btf.Sizeof(typ)
	if err != nil || size == 0 {
		return nil, false
	}
	switch t := typ.(type) {
	case *btf.Struct, *btf.Union:
		return decodeMembers(Fields{}, t, b[:min(size, len(b))]), true
	}
	if size > len(b) {
		return nil, false
	}
	switch t := typ.(type) {
	case *btf.Int, *btf.Enum, *btf.Pointer:
		if size > 8 { // __int128
			return raw(bytes.Clone(b[:size])), true
		}
		return scalar(t, word(b[:size]), uint(size)*8), true
	case *btf.Float:
		switch size {
		case 4:
			return float64(math.Float32frombits(uint32(word(b[:4])))), true
		case 8:
			return math.Float64frombits(word(b[:8])), true
		}
	}
	return nil, false
}

// word is up to 8 bytes as a number. Like the rings, it is little-endian.
func word(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// decodeBits returns a bit field, which lies at a number of bits from the beginning of b.
func decodeBits(typ btf.Type, b []byte, at, bits uint) (v Value, ok bool) {
	first, last := at/8, (at+bits+7)/8
	if last > uint(len(b)) || last-first > 8 {
		return nil, false
	}
	w := word(b[first:last]) >> (at % 8)
	return scalar(typ, w&(1<<bits-1), bits), true
}

// scalar is a number of so many bits.
func scalar(typ btf.Type, w uint64, bits uint) Value {
	signed := int64(w<<(64-bits)) >> (64 - bits)
	switch t := typ.(type) {
	case *btf.Pointer:
		return address(w)
	case *btf.Enum:
		for _, e := range t.Values {
			if e.Value == w || t.Signed && int64(e.Value) == signed {
				return enumerator(e.Name)
			}
		}
		if t.Signed {
			return signed
		}
	case *btf.Int:
		switch {
		case t.Encoding == btf.Bool && w <= 1:
			return w == 1
		case t.Encoding == btf.Signed || isChar(t):
			return signed
		}
	}
	return w
}

// isChar tells whether an array of t is text. clang gives char no encoding of its own, but it has the name.
func isChar(t *btf.Int) bool { return t.Size == 1 && (t.Encoding == btf.Char || t.Name == "char") }

// decodeArray returns an array: text, bytes, or values. One of no size, the last member of a struct, goes on to the end, and one
// that b cuts off has fewer elements.
func decodeArray(arr *btf.Array, b []byte) (v Value, ok bool) {
	elem := btf.UnderlyingType(arr.Type)
	size, err := btf.Sizeof(elem)
	if err != nil || size == 0 {
		return nil, false
	}
	n := len(b) / size
	if arr.Nelems > 0 {
		n = min(n, int(arr.Nelems))
	}
	if t, is := elem.(*btf.Int); is && size == 1 {
		if !isChar(t) {
			return raw(bytes.Clone(b[:n])), true
		}
		text, _, _ := bytes.Cut(b[:n], []byte{0})
		return string(text), true
	}
	list := values{}
	for i := range n {
		v, ok := decodeValue(elem, b[i*size:])
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, true
}
