package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
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
		return findType(spec, typ, f.BTF)
	}
	programs := m.Programs
	if f.BTFProg != "" {
		p, err := findProgram(f.BTFProg, m)
		if err != nil {
			return nil, err
		}
		programs = []bpfmaps.Program{p}
	}
	if len(programs) == 0 {
		return nil, fmt.Errorf("--type %s: no program that could be seen uses the map: name one by --btf-prog, or a file by --btf", typ)
	}
	var why []error
	looked := true // at all BTF there is
	for _, p := range programs {
		d, err := findInProgram(p, typ)
		if err == nil {
			return d, nil
		}
		looked = looked && errors.Is(err, errNoType)
		why = append(why, err)
	}
	if !looked {
		return nil, fmt.Errorf("--type %s: %w", typ, joined(why))
	}
	return nil, fmt.Errorf("%w. A BPF object has a type in its BTF if a map or a global variable has it, not if it lives on the stack only: "+
		"--btf FILE takes it from elsewhere", joined(why))
}

// findProgram returns the program of an id, or of a name: the map's if it has one of that, or any.
func findProgram(which string, m bpfmaps.Map) (bpfmaps.Program, error) {
	if id, err := strconv.ParseUint(which, 10, 32); err == nil {
		return bpfmaps.Program{ID: uint32(id)}, nil
	}
	for _, p := range m.Programs {
		if p.Name == which {
			return p, nil
		}
	}
	return bpfmaps.Program{}, fmt.Errorf("--btf-prog %s: no program of the map has that name: give its id, which may be any program's", which)
}

// findInProgram finds a type in the BTF of a loaded program.
func findInProgram(p bpfmaps.Program, name string) (*Decoder, error) {
	ids, err := btfOf(p)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: program %s has no BTF: it was built without -g, or loaded without", errNoType, p)
	}
	var names []string
	for _, id := range ids {
		spec, err := load(id)
		if err != nil {
			return nil, fmt.Errorf("the BTF of program %s: %w", p, err)
		}
		d, err := findType(spec, name, "the BTF of program "+p.String())
		if !errors.Is(err, errNoType) {
			return d, err
		}
		for _, s := range structs(spec) {
			if !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
	}
	return nil, noType("the BTF of program "+p.String(), name, names)
}

// load returns the types of a BTF object in the kernel: BPF_BTF_GET_FD_BY_ID, which takes CAP_SYS_ADMIN.
func load(id btf.ID) (*btf.Spec, error) {
	handle, err := btf.NewHandleFromID(id)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	return handle.Spec(nil)
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

// typesOf returns the types in the BTF of programs, as far as that can be had.
func typesOf(programs []bpfmaps.Program) (types []btf.Type) {
	seen := map[btf.ID]bool{}
	for _, p := range programs {
		ids, _ := btfOf(p)
		for _, id := range ids {
			if seen[id] {
				continue // libbpf's programs share one
			}
			seen[id] = true
			spec, err := load(id)
			if err != nil {
				continue
			}
			types = append(types, named(spec)...)
		}
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

// btfOf returns the ids of the BTF that a program was loaded with, and of that of its maps, each once: libbpf gives all of an object's
// types to each of them, cilium/ebpf only those that they need.
func btfOf(p bpfmaps.Program) (ids []btf.ID, err error) {
	prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(p.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no program with the id %d (any more)", p.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("opening program %s: %w", p, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return nil, fmt.Errorf("looking at program %s: %w", p, err)
	}
	if id, ok := info.BTFID(); ok {
		ids = append(ids, id)
	}
	maps, _ := info.MapIDs()
	for _, id := range maps {
		m, err := ebpf.NewMapFromID(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is gone
		}
		if err != nil {
			return nil, fmt.Errorf("opening map %d of program %s: %w", id, p, err)
		}
		info, err := m.Info()
		m.Close()
		if err != nil {
			return nil, fmt.Errorf("looking at map %d of program %s: %w", id, p, err)
		}
		if id, ok := info.BTFID(); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// findType returns the struct or union, or what a typedef of that name stands for. where is for errors.
func findType(spec *btf.Spec, name, where string) (*Decoder, error) {
	short := bare(name)
	types, err := spec.AnyTypesByName(short)
	if err != nil && !errors.Is(err, btf.ErrNotFound) {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	for _, typ := range types {
		var d *Decoder
		switch t := btf.UnderlyingType(typ).(type) {
		case *btf.Struct:
			d, err = describe("struct "+short, int(t.Size), t, typ)
		case *btf.Union:
			d, err = describe("union "+short, int(t.Size), t, typ)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: choose another type", where, err)
		}
		return d, nil
	}
	return nil, noType(where, name, structs(spec))
}

// bare is a type's name as BTF has it.
func bare(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "struct "), "union ")
}

// structs are the names of the structs that there are.
func structs(spec *btf.Spec) (names []string) {
	for typ := range spec.All() {
		if s, ok := typ.(*btf.Struct); ok && s.Name != "" {
			names = append(names, cli.Printable(s.Name))
		}
	}
	return names
}

var errNoType = errors.New("no struct or union")

// noType is an errNoType that names some of the structs that there are: the last ones, as a program's own come behind the kernel's that it
// includes.
func noType(where, name string, names []string) error {
	return fmt.Errorf("%s has %w %q; it has %s", where, errNoType, bare(name), some(names))
}

func some(names []string) string {
	const most = 12
	switch more := len(names) - most; {
	case len(names) == 0:
		return "no structs"
	case more > 0:
		names = names[more:]
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// joined makes one line of errors.
func joined(all []error) error {
	var lines []string
	for _, err := range all {
		lines = append(lines, err.Error())
	}
	return errors.New(strings.Join(lines, "; "))
}
