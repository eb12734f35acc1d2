package source

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfmaps"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// newDecoder finds a type for the events of a map.
func (f *Flags) newDecoder(typ string, m bpfmaps.Map) (*Decoder, error) {
	if f.BTF != "" {
		spec, err := btf.LoadSpec(f.BTF)
		if err != nil {
			return nil, fmt.Errorf("--btf %s: %w: it takes a BPF object that was built with -g, or BTF itself", f.BTF, err)
		}
		return findType(typ, f.BTF, spec)
	}
	programs, err := m.Programs, error(nil)
	if f.BTFProg != "" {
		programs, err = findProgram(f.BTFProg, m)
	} else if len(programs) == 0 {
		err = fmt.Errorf("--type %s: no program that could be seen uses the map: name one by --btf-prog, or a file by --btf", typ)
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range programs {
		names = append(names, p.String())
	}
	specs, failed := load(programs)
	d, err := findType(typ, "the BTF of program "+strings.Join(names, ", "), specs...)
	switch {
	case err == nil || !errors.Is(err, errNoType):
		return d, err
	case failed != nil:
		return nil, fmt.Errorf("--type %s: %w", typ, failed)
	}
	return nil, fmt.Errorf("%w. A BPF object has BTF if it was built with -g, and in it a type that a map or a global variable has, "+
		"not one that lives on the stack only: --btf FILE takes it from elsewhere", err)
}

// findProgram returns the program of an id, which may be any, or the map's of a name.
func findProgram(which string, m bpfmaps.Map) ([]bpfmaps.Program, error) {
	if id, err := strconv.ParseUint(which, 10, 32); err == nil {
		return []bpfmaps.Program{{ID: uint32(id)}}, nil
	}
	for _, p := range m.Programs {
		if p.Name == which {
			return []bpfmaps.Program{p}, nil
		}
	}
	return nil, fmt.Errorf("--btf-prog %s: no program of the map has that name: give its id, which may be any program's", which)
}

// load returns the BTF that programs were loaded with, and that of their maps, each once: libbpf gives
// all of an object's types to each of them, cilium/ebpf only those that they need. An error is the first
// of those that left out something. It calls BPF_BTF_GET_FD_BY_ID, which takes CAP_SYS_ADMIN.
func load(programs []bpfmaps.Program) (specs []*btf.Spec, err error) {
	seen := map[btf.ID]bool{}
	add := func(id btf.ID, has bool) error {
		if !has || seen[id] {
			return nil
		}
		seen[id] = true
		handle, err := btf.NewHandleFromID(id)
		if err != nil {
			return err
		}
		defer handle.Close()
		spec, err := handle.Spec(nil)
		if err == nil {
			specs = append(specs, spec)
		}
		return err
	}
	for _, p := range programs {
		err = cmp.Or(err, eachBTF(p, add))
	}
	return specs, err
}

// eachBTF hands the id of the BTF of a program to add, and those of its maps, as far as they have one.
func eachBTF(p bpfmaps.Program, add func(id btf.ID, has bool) error) error {
	prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(p.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no program with the id %d (any more)", p.ID)
	}
	if err != nil {
		return fmt.Errorf("opening program %s: %w", p, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return fmt.Errorf("looking at program %s: %w", p, err)
	}
	if err := add(info.BTFID()); err != nil {
		return fmt.Errorf("the BTF of program %s: %w", p, err)
	}
	maps, _ := info.MapIDs()
	for _, id := range maps {
		m, err := ebpf.NewMapFromID(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is gone
		}
		var info *ebpf.MapInfo
		if err == nil {
			info, err = m.Info()
			m.Close()
		}
		if err == nil {
			err = add(info.BTFID())
		}
		if err != nil {
			return fmt.Errorf("looking at map %d of program %s: %w", id, p, err)
		}
	}
	return nil
}

// encode returns the BTF of some types, and of what they are made of.
func encode(types []btf.Type) ([]byte, error) {
	if len(types) == 0 {
		return nil, nil
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		return nil, err
	}
	return b.Marshal(nil, nil)
}

// typesOf returns the types in the BTF of programs, as far as that can be read.
func typesOf(programs []bpfmaps.Program) (types []btf.Type) {
	specs, _ := load(programs)
	for _, spec := range specs {
		types = append(types, named(spec)...)
	}
	return types
}

// named returns the types that events may have.
func named(spec *btf.Spec) (types []btf.Type) {
	for typ := range spec.All() {
		switch typ.(type) {
		case *btf.Struct, *btf.Union, *btf.Typedef:
			if typ.TypeName() != "" {
				types = append(types, typ)
			}
		}
	}
	return types
}

var errNoType = errors.New("no struct or union")

// findType returns the struct or union of that name, or the one that a typedef stands for. where is for
// errors: an errNoType names structs.
func findType(name, where string, specs ...*btf.Spec) (*Decoder, error) {
	short := strings.TrimPrefix(strings.TrimPrefix(name, "struct "), "union ")
	var structs []string
	seen := map[string]bool{"": true}
	for _, spec := range specs {
		types, err := spec.AnyTypesByName(short)
		if err != nil && !errors.Is(err, btf.ErrNotFound) {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		for _, typ := range types {
			d, err := describe(short, typ)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: choose another type", where, err)
			}
			if d != nil {
				return d, nil
			}
		}
		for typ := range spec.All() {
			if s, ok := typ.(*btf.Struct); ok && !seen[s.Name] {
				seen[s.Name], structs = true, append(structs, s.Name)
			}
		}
	}
	return nil, fmt.Errorf("%s has %w %q; it has %s", where, errNoType, short, some(structs))
}

// some lists the last ones: a program's own types come behind the kernel's that it includes.
func some(names []string) string {
	const most = 12
	more := len(names) - most
	list := cli.Printable(strings.Join(names[max(more, 0):], ", "))
	switch {
	case len(names) == 0:
		return "no structs"
	case more > 0:
		return fmt.Sprintf("%s and %d more", list, more)
	}
	return list
}
