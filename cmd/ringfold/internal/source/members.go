package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// What a type may be like, which is far more than those of events are.
const (
	mostDepth   = 64      // of structs, arrays and typedefs in each other: the kernel allows 32
	mostMembers = 1 << 14 // with those of structs within it; of an array, those of one element
)

var (
	errWithin = errors.New("contains itself")
	errDeep   = fmt.Errorf("is nested more than %d deep", mostDepth)
	errWide   = fmt.Errorf("has more than %d members", mostMembers)
)

// describe makes a decoder of a struct or union, or of what a typedef stands for, unless that exceeds the
// limits. It is nil for other types.
func describe(name string, named btf.Type) (*Decoder, error) {
	typ, kind := btf.UnderlyingType(named), "struct "
	switch typ.(type) {
	case *btf.Struct:
	case *btf.Union:
		kind = "union "
	default:
		return nil, nil
	}
	size, err := btf.Sizeof(typ)
	if err == nil {
		_, err = weigh(typ, map[btf.Type]weight{}, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("%s%s %w", kind, name, err)
	}
	return &Decoder{Name: kind + name, Size: size, typ: typ, named: named, members: map[string]btf.Type{}}, nil
}

type weight struct{ depth, members int }

// weigh counts the members of a type and of those within it, each type once: there may be far more ways to them.
func weigh(typ btf.Type, known map[btf.Type]weight, level int) (w weight, err error) {
	typ = btf.UnderlyingType(typ)
	parts, each := membersOf(typ), 1
	if arr, ok := typ.(*btf.Array); ok {
		parts, each = []btf.Member{{Type: arr.Type}}, 0
	}
	if parts == nil {
		return w, nil
	}
	w, ok := known[typ]
	switch {
	case ok && w.depth == 0:
		return w, errWithin
	case level+w.depth > mostDepth:
		return w, errDeep
	case ok:
		return w, nil
	}
	known[typ] = w
	for _, m := range parts {
		part, err := weigh(m.Type, known, level+1)
		if err != nil {
			return w, err
		}
		w.depth = max(w.depth, part.depth)
		if w.members += each + part.members; w.members > mostMembers {
			return w, errWide
		}
	}
	w.depth++
	known[typ] = w
	return w, nil
}

// membersOf returns those of a struct or union.
func membersOf(typ btf.Type) []btf.Member {
	switch t := typ.(type) {
	case *btf.Struct:
		return t.Members
	case *btf.Union:
		return t.Members
	}
	return nil
}

// member returns the type of a field by its path, such as "at.x", nil if there is none. Later calls for the same path may come from any
// goroutine.
func (d *Decoder) member(path string) btf.Type {
	typ, ok := d.members[path]
	if !ok {
		typ = memberOf(d.typ, path)
		d.members[path] = typ
	}
	return typ
}

func memberOf(typ btf.Type, path string) btf.Type {
	name, rest, nested := strings.Cut(path, ".")
	for _, m := range membersOf(typ) {
		inner := btf.UnderlyingType(m.Type)
		switch {
		case m.Name == "": // its members are fields of this struct
			if found := memberOf(inner, path); found != nil {
				return found
			}
		case m.Name == name && nested:
			return memberOf(inner, rest)
		case m.Name == name:
			return inner
		}
	}
	return nil
}

// fields are the names of fields, those of structs in it left out, for people.
func (d *Decoder) fields() []string { return fieldsOf(nil, d.typ) }

func fieldsOf(names []string, typ btf.Type) []string {
	for _, m := range membersOf(typ) {
		if m.Name == "" {
			names = fieldsOf(names, btf.UnderlyingType(m.Type))
		} else {
			names = append(names, cli.Printable(m.Name))
		}
	}
	return names
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
