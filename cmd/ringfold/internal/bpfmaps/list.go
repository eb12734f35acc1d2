package bpfmaps

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/perfevent"
)

// List returns the perf event arrays and ring buffers of the system, by id, or those that one process
// holds, named by its comm or pid, of which there must be some. It takes CAP_SYS_ADMIN.
func List(process string) (maps []Map, err error) {
	err = each("map", ebpf.MapGetNextID, ebpf.NewMapFromID, func(_ ebpf.MapID, m *ebpf.Map) error {
		one, err := mapOf(m)
		if err == nil && one.Type != "" {
			maps = append(maps, one)
		}
		return err
	})
	if err == nil && len(maps) > 0 {
		err = describe(maps)
	}
	if err != nil || process == "" {
		return maps, err
	}
	return heldBy(maps, process)
}

// each opens every object of one kind in the kernel for do, in the order of ids. It skips objects that
// go meanwhile.
func each[ID ~uint32, T io.Closer](kind string, next func(ID) (ID, error), open func(ID) (T, error), do func(ID, T) error) error {
	for id := ID(0); ; {
		var err error
		if id, err = next(id); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return explain(fmt.Errorf("listing %ss: %w", kind, err))
		}
		object, err := open(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = do(id, object)
			object.Close()
		}
		if err != nil {
			return explain(fmt.Errorf("looking at %s %d: %w", kind, id, err))
		}
	}
}

// mapOf describes an open map, without its users. Its Type is empty if it cannot be read.
func mapOf(m *ebpf.Map) (Map, error) {
	info, err := m.Info()
	if err != nil {
		return Map{}, err
	}
	id, _ := info.ID()
	typ, overwrites := readable(m)
	return Map{ID: uint32(id), Type: typ, Name: info.Name, MaxEntries: m.MaxEntries(), Overwrites: overwrites,
		Programs: []Program{}, Processes: Processes{}, Pins: []string{}}, nil
}

// readable names the type of a map that can be read, and is empty for others.
func readable(m *ebpf.Map) (typ string, overwrites bool) {
	switch m.Type() {
	case ebpf.PerfEventArray:
		return perfEventArray, false
	case ebpf.RingBuf:
		return "ringbuf", m.Flags()&bpf.FlagOverwrite != 0
	case ebpf.ArrayOfMaps:
		return of(m, "array_of_maps")
	case ebpf.HashOfMaps:
		return of(m, "hash_of_maps")
	}
	return "", false
}

// of is this type if the first map in a map of maps is a ring buffer. All in it are of one type, with the same flags.
func of(m *ebpf.Map, typ string) (_ string, overwrites bool) {
	key := make([]byte, m.KeySize())
	for err := m.NextKey(nil, &key); err == nil; err = m.NextKey(key, &key) {
		var id ebpf.MapID
		if m.Lookup(key, &id) != nil {
			continue // empty
		}
		inner, err := ebpf.NewMapFromID(id)
		if err != nil {
			return "", false
		}
		defer inner.Close()
		if inner.Type() == ebpf.RingBuf {
			return typ, inner.Flags()&bpf.FlagOverwrite != 0
		}
		return "", false
	}
	return "", false
}

// describe finds the processes, pins and programs of maps. Its only error is that it may not look at
// programs; it has found the rest then.
func describe(maps []Map) error {
	findProcesses(maps)
	findPins(maps)
	return findPrograms(maps)
}

// findPrograms adds to each map the programs that use it and may output to it.
func findPrograms(maps []Map) error {
	return each("program", ebpf.ProgramGetNextID, ebpf.NewProgramFromID, func(id ebpf.ProgramID, p *ebpf.Program) error {
		info, err := p.Info()
		if err != nil || info.Name == perfevent.CompareProgram { // of a reader
			return err
		}
		uses, _ := info.MapIDs()
		for i := range maps {
			if slices.Contains(uses, ebpf.MapID(maps[i].ID)) {
				maps[i].Programs = append(maps[i].Programs, Program{ID: uint32(id), Name: info.Name, Type: info.Type.String()})
			}
		}
		return nil
	})
}

// Used reports whether a loaded program uses the map, and looks for others when all of Programs are
// gone. If it cannot see that, it is true.
func (m *Map) Used() bool {
	for _, known := range m.Programs {
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(known.ID))
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	now := []Map{{ID: m.ID}}
	err := findPrograms(now)
	m.Programs = now[0].Programs
	return err != nil || len(m.Programs) > 0
}

// explain adds to an error what is missing.
func explain(err error) error {
	if _, gone := os.Stat("/proc/self/fdinfo"); gone != nil { // which cilium/ebpf looks into
		return fmt.Errorf("%w: mount proc on /proc", err)
	}
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if host.InUserNamespace() {
		return fmt.Errorf("%w: uid %d is in a user namespace, whose capabilities do not count for BPF: "+
			"run it outside, not in a rootless container", err, os.Geteuid())
	}
	return fmt.Errorf("%w: uid %d may not look for other programs' maps, which takes CAP_SYS_ADMIN: run as root, or grant it; "+
		"a map that is pinned can be opened by its path, with CAP_BPF", err, os.Geteuid())
}
