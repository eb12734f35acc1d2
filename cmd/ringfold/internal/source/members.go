package source

import (
	"strings"

	"github.com/cilium/ebpf/btf"
)

// describe makes a decoder of a struct or union.
func describe(name string, size int, typ, named btf.Type) *Decoder {
	d := &Decoder{Name: name, Size: size, typ: typ, named: named, members: map[string]btf.Type{}}
	d.describe("", typ)
	return d
}

// describe notes the members of a struct or union, and of those in it, by paths such as "at.x".
func (d *Decoder) describe(prefix string, typ btf.Type) {
	var members []btf.Member
	switch t := typ.(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		typ := btf.UnderlyingType(m.Type)
		path := prefix
		if m.Name != "" {
			path += m.Name
			d.members[path] = typ
			if prefix == "" {
				d.fields = append(d.fields, m.Name)
			}
			path += "."
		}
		switch typ.(type) {
		case *btf.Struct, *btf.Union:
			d.describe(path, typ)
		}
	}
}

// lookup returns a field by its path, such as "at.x". ok is false if the payload does not have it.
func (f Fields) lookup(path string) (v Value, ok bool) {
	name, rest, nested := strings.Cut(path, ".")
	for _, one := range f {
		if one.Name != name {
			continue
		}
		if !nested {
			return one.Value, true
		}
		if inner, is := one.Value.(Fields); is {
			return inner.lookup(rest)
		}
	}
	return nil, false
}

// Select returns those of these paths that there are, in the order of paths.
func (f Fields) Select(paths []string) Fields {
	chosen := Fields{}
	for _, path := range paths {
		if v, ok := f.lookup(path); ok {
			chosen = append(chosen, Field{path, v})
		}
	}
	return chosen
}
