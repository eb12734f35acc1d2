package bpfmaps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
)

// find opens the map, whatever it is used for. A name is that of a map of process, if that is given.
func (s Selector) find(process string) (*ebpf.Map, error) {
	switch {
	case s.ID != 0:
		return byID(s.ID)
	case s.Pin != "":
		return byPin(s.Pin)
	}
	all, err := List(process)
	if err != nil {
		return nil, err
	}
	m, err := choose(all, s.Name)
	if err != nil {
		return nil, err
	}
	return byID(m.ID)
}

func byID(id uint32) (*ebpf.Map, error) {
	m, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no map with the id %d (any more): ringfold list shows those that there are", id)
	}
	if err != nil {
		return nil, explain(fmt.Errorf("opening map %d: %w", id, err))
	}
	return m, nil
}

func byPin(path string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("nothing is pinned at %s: ringfold list shows pins", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("opening the pin %s: %w: uid %d may not read and write the file, or lacks CAP_BPF, or %s is not in a file system "+
			"of BPF (mount -t bpf): run as root, or grant them", path, err, os.Geteuid(), path)
	case err != nil:
		return nil, fmt.Errorf("opening the pin %s: %w", path, err)
	}
	return m, nil
}

// maxName is how much of a map's name the kernel keeps: BPF_OBJ_NAME_LEN less the NUL.
const maxName = 15

// choose returns the map of that name, or, if it is empty, the only one that programs use.
func choose(all []Map, name string) (Map, error) {
	var found []Map
	for _, m := range all {
		if name == "" || m.Name == name || len(name) > maxName && m.Name == name[:maxName] {
			found = append(found, m)
		}
	}
	if name == "" {
		found = used(found)
	}
	switch {
	case len(all) == 0:
		return Map{}, errors.New("there is no perf event array or BPF ring buffer on this system: start the program that loads one")
	case len(found) == 0:
		return Map{}, fmt.Errorf("no perf event array or BPF ring buffer is named %q; there are: %s", name, join(all, Map.Whose))
	case len(found) > 1 && name == "":
		return Map{}, fmt.Errorf("there are several perf event arrays or BPF ring buffers: choose, as in id %d: %s", found[0].ID, join(found, Map.Whose))
	case len(found) > 1:
		return Map{}, fmt.Errorf("several maps are named %q: choose one, as in id %d: %s", name, found[0].ID, join(found, Map.Whose))
	}
	return found[0], nil
}

// used returns those maps that programs use, or all if there are none. Others get no events; readers
// have some for themselves, as ringfold does.
func used(maps []Map) (found []Map) {
	for _, m := range maps {
		if len(m.Programs) > 0 {
			found = append(found, m)
		}
	}
	if found == nil {
		return maps
	}
	return found
}
