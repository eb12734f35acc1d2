package bpfmaps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/internal/perfevent"
)

// List returns all perf event arrays and ring buffers of the system, by id. It takes CAP_SYS_ADMIN.
func List() ([]Map, error) {
	var maps []Map
	for id, err := ebpf.MapGetNextID(0); ; id, err = ebpf.MapGetNextID(id) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, explain(fmt.Errorf("listing maps: %w", err))
		}
		m, err := ebpf.NewMapFromID(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is gone
		}
		if err != nil {
			return nil, explain(fmt.Errorf("opening map %d: %w", id, err))
		}
		if typ := readable(m); typ != "" {
			maps = append(maps, Map{ID: uint32(id), Type: typ, Name: mapName(m), MaxEntries: m.MaxEntries()})
		}
		m.Close()
	}
	if len(maps) == 0 {
		return nil, nil
	}
	if err := describe(maps); err != nil {
		return nil, err
	}
	return maps, nil
}

// readable names the type of a map that can be read, and is empty for others.
func readable(m *ebpf.Map) string {
	switch m.Type() {
	case ebpf.PerfEventArray:
		return perfEventArray
	case ebpf.RingBuf:
		return "ringbuf"
	case ebpf.ArrayOfMaps:
		return of(m, "array_of_maps")
	case ebpf.HashOfMaps:
		return of(m, "hash_of_maps")
	}
	return ""
}

// of is this type if the first map in a map of maps is a ring buffer. All in it are of one type.
func of(m *ebpf.Map, typ string) string {
	key := make([]byte, m.KeySize())
	for err := m.NextKey(nil, &key); err == nil; err = m.NextKey(key, &key) {
		var id ebpf.MapID
		if m.Lookup(key, &id) != nil {
			continue // empty
		}
		inner, err := ebpf.NewMapFromID(id)
		if err != nil {
			return ""
		}
		defer inner.Close()
		if inner.Type() == ebpf.RingBuf {
			return typ
		}
		return ""
	}
	return ""
}

// mapName is the map's name, empty if it has none.
func mapName(m *ebpf.Map) string {
	if info, err := m.Info(); err == nil {
		return info.Name
	}
	return ""
}

// describe finds who has to do with the maps. If it may not look at programs, which is its only error, it has found the rest.
func describe(maps []Map) error {
	findProcesses(maps)
	findPins(maps)
	return findPrograms(maps)
}

// findPrograms adds to each map the programs that use it and may output to it.
func findPrograms(maps []Map) error {
	for id, err := ebpf.ProgramGetNextID(0); ; id, err = ebpf.ProgramGetNextID(id) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return explain(fmt.Errorf("listing programs: %w", err))
		}
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is gone
		}
		if err != nil {
			return explain(fmt.Errorf("opening program %d: %w", id, err))
		}
		info, err := p.Info()
		p.Close()
		if err != nil {
			return explain(fmt.Errorf("looking at program %d: %w", id, err))
		}
		if info.Name == perfevent.CompareProgram {
			continue // of a reader
		}
		uses, _ := info.MapIDs()
		for i := range maps {
			if slices.Contains(uses, ebpf.MapID(maps[i].ID)) {
				maps[i].Programs = append(maps[i].Programs, Program{ID: uint32(id), Name: info.Name, Type: info.Type.String()})
			}
		}
	}
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
		return fmt.Errorf("%w: uid %d is in a user namespace, whose capabilities do not count for BPF: run it outside, not in a rootless container", err, os.Geteuid())
	}
	return fmt.Errorf("%w: uid %d may not look for other programs' maps, which takes CAP_SYS_ADMIN: run as root, or grant it; "+
		"a map that is pinned can be opened by its path, with CAP_BPF", err, os.Geteuid())
}
