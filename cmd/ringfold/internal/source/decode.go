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

	exact   bool                // payloads are not padded: of ring buffers
	members map[string]btf.Type // by path, as far as they were asked for
}

// Decode returns the fields that b has, which may be fewer than the type has. What it returns is a copy.
func (d *Decoder) Decode(b []byte) Fields {
	left := newBudget(b)
	f := left.members(Fields{}, d.typ, b)
	// A record is padded to 8 bytes, with 4 for its length: see perfbuf.Event.Len.
	padded := (d.Size+4+7)&^7 - 4
	if d.exact {
		padded = d.Size
	}
	if len(b) > padded {
		f = append(f, Field{"(more bytes)", raw(bytes.Clone(b[d.Size:]))})
	}
	if left < 0 {
		f = append(f, Field{"(incomplete)", "the type has far more values than bytes"})
	}
	return f
}

// budget is what a payload may still be decoded to, about one for each value and each byte of text. Members of a type may all lie at
// the same bytes; then a payload could become any number of values.
type budget int

func newBudget(b []byte) budget { return budget(mostMembers + 4*len(b)) }

// spend reports whether there was as much left.
func (left *budget) spend(n int) bool {
	*left -= budget(n)
	return *left >= 0
}

// members appends the fields of a struct or union that begins with b.
func (left *budget) members(f Fields, typ btf.Type, b []byte) Fields {
	for _, m := range membersOf(typ) {
		if !left.spend(1 + len(m.Name)/16) {
			break
		}
		typ := btf.UnderlyingType(m.Type)
		if m.BitfieldSize > 0 {
			if v, ok := left.bits(typ, b, uint(m.Offset), uint(m.BitfieldSize)); ok {
				f = append(f, Field{m.Name, v})
			}
			continue
		}
		at := int(m.Offset.Bytes())
		if at >= len(b) {
			continue // the payload is shorter
		}
		if m.Name == "" && membersOf(typ) != nil {
			f = left.members(f, typ, b[at:])
		} else if v, ok := left.value(typ, b[at:]); ok {
			f = append(f, Field{m.Name, v})
		}
	}
	return f
}

// value returns what b begins with. ok is false if that is not all there, or nothing that has a value.
func (left *budget) value(typ btf.Type, b []byte) (v Value, ok bool) {
	typ = btf.UnderlyingType(typ)
	if arr, ok := typ.(*btf.Array); ok {
		return left.array(arr, b)
	}
	size, err := btf.Sizeof(typ)
	if err != nil || size == 0 || !left.spend(1) {
		return nil, false
	}
	switch t := typ.(type) {
	case *btf.Struct, *btf.Union:
		return left.members(Fields{}, t, b[:min(size, len(b))]), true
	}
	if size > len(b) {
		return nil, false
	}
	switch t := typ.(type) {
	case *btf.Int, *btf.Enum, *btf.Pointer:
		if size > 8 { // __int128
			return raw(bytes.Clone(b[:size])), left.spend(size)
		}
		return left.scalar(t, word(b[:size]), uint(size)*8)
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

// bits returns a bit field, which lies at a number of bits from the beginning of b.
func (left *budget) bits(typ btf.Type, b []byte, at, bits uint) (v Value, ok bool) {
	first, last := at/8, (at+bits+7)/8
	if last > uint(len(b)) || last-first > 8 {
		return nil, false
	}
	w := word(b[first:last]) >> (at % 8)
	return left.scalar(typ, w&(1<<bits-1), bits)
}

// scalar is a number of so many bits, or a name for it, which is looked for among all that there are.
func (left *budget) scalar(typ btf.Type, w uint64, bits uint) (v Value, ok bool) {
	v = scalar(typ, w, bits)
	if t, is := typ.(*btf.Enum); is {
		name, _ := v.(enumerator)
		return v, left.spend((len(t.Values) + len(name)) / 16)
	}
	return v, true
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

// array returns an array: text, bytes, or values. One of no size, the last member of a struct, goes on to the end, and one
// that b cuts off has fewer elements.
func (left *budget) array(arr *btf.Array, b []byte) (v Value, ok bool) {
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
		if !left.spend(n) {
			return nil, false
		}
		if !isChar(t) {
			return raw(bytes.Clone(b[:n])), true
		}
		text, _, _ := bytes.Cut(b[:n], []byte{0})
		return string(text), true
	}
	list := values{}
	for i := range n {
		v, ok := left.value(elem, b[i*size:])
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, true
}
