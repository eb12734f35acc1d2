package bpfmaps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
)

// Selector says which map, and what is in its payloads. Set one of ID, Name and Pin, or none if programs use only one map.
type Selector struct {
	ID    uint32
	Name  string
	Pin   string // a path
	Steal bool   // take it over, even if somebody reads it
	// Process narrows Name to maps that the process of this comm or pid holds.
	Process string

	Fields
}

// Others are the processes that hold the map, besides this one.
func (m Map) Others() (others []Process) {
	for _, p := range m.Processes {
		if p.PID != os.Getpid() {
			others = append(others, p)
		}
	}
	return others
}

// Open opens the map. It fails with a *BusyError if the map may have a reader, unless Steal is set.
func (s Selector) Open() (*Target, error) {
	m, err := s.find()
	if err != nil {
		return nil, err
	}
	t := &Target{m: m, Fields: s.Fields}
	if t.Map, err = describeOne(m); err == nil {
		err = t.prepare()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	if s.Steal {
		return t, nil
	}
	if t.waitForLists(); len(t.Others()) > 0 || t.Unseen != "" {
		t.Close()
		return nil, &BusyError{Map: t.Map, Others: t.Others()}
	}
	return t, nil
}

// waitForLists looks again who holds the map, for 200 ms at most, while others do, and forgets who does not any more: to list maps, as
// List and bpftool do, is to hold each for a moment.
func (m *Map) waitForLists() {
	for range 10 {
		if len(m.Others()) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
		now := []Map{{ID: m.ID, Type: m.Type}}
		findProcesses(now)
		m.Processes = slices.DeleteFunc(m.Processes, func(p Process) bool {
			return !slices.ContainsFunc(now[0].Processes, func(q Process) bool { return q.PID == p.PID })
		})
	}
}

// find opens the map, whatever it is used for.
func (s Selector) find() (*ebpf.Map, error) {
	given := 0
	for _, is := range []bool{s.ID != 0, s.Name != "", s.Pin != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return nil, errors.New("an id, a name and a pin each choose a map: give one of them")
	case s.ID != 0:
		return byID(s.ID)
	case s.Pin != "":
		return byPin(s.Pin)
	}
	return byName(s.Name, s.Process)
}

func byID(id uint32) (*ebpf.Map, error) {
	m, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no map with the id %d (any more): ringfold list shows those that there are", id)
	}
	if err != nil {
		return nil, explain(fmt.Errorf("opening map %d: %w", id, err))
	}
	return onlyReadable(m)
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
	return onlyReadable(m)
}

// byName opens the map of that name, or, if it is empty, the only one.
func byName(name, process string) (*ebpf.Map, error) {
	all, err := List()
	if err == nil && process != "" {
		all, err = HeldBy(all, process)
	}
	if err != nil {
		return nil, err
	}
	m, err := choose(all, name)
	if err != nil {
		return nil, err
	}
	return byID(m.ID)
}

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
		return Map{}, fmt.Errorf("no perf event array or BPF ring buffer is named %q; there are: %s", name, candidates(all))
	case len(found) > 1 && name == "":
		return Map{}, fmt.Errorf("there are several perf event arrays or BPF ring buffers: choose, as in id %d: %s", found[0].ID, candidates(found))
	case len(found) > 1:
		return Map{}, fmt.Errorf("several maps are named %q: choose one, as in id %d: %s", name, found[0].ID, candidates(found))
	}
	return found[0], nil
}

// HeldBy returns the maps that a process holds: one of this comm, or of this pid.
func HeldBy(all []Map, process string) (found []Map, err error) {
	for _, m := range all {
		if slices.ContainsFunc(m.Processes, func(p Process) bool { return p.Comm == process || strconv.Itoa(p.PID) == process }) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no process %q holds a perf event array or BPF ring buffer: ringfold list shows those that do", process)
	}
	return found, nil
}

// used returns those maps that programs use, or all, if that is none. Others get no events; readers of other maps have such (ringfold does).
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

// maxName is how much of a map's name the kernel keeps: BPF_OBJ_NAME_LEN less the NUL.
const maxName = 15

// candidates lists maps with what tells them apart.
func candidates(maps []Map) string {
	var all []candidate
	for _, m := range maps {
		all = append(all, candidate(m))
	}
	return join(all)
}

type candidate Map

func (c candidate) String() string { return Map(c).Whose() }

// Whose is such as "events (id 12) of opensnoop (pid 345)".
func (m Map) Whose() string {
	switch s := m.String(); {
	case len(m.Processes) > 0:
		return s + " of " + m.Processes[0].String()
	case len(m.Programs) > 0:
		return s + " of program " + name(m.Programs[0].Name)
	default:
		return s
	}
}

// onlyReadable returns m if it can be read.
func onlyReadable(m *ebpf.Map) (*ebpf.Map, error) {
	if readable(m) != "" {
		return m, nil
	}
	defer m.Close()
	id, _ := idOf(m)
	return nil, fmt.Errorf("map %s (id %d) is a map of the type %v, not a perf event array, nor a BPF ring buffer or a map with such: ringfold list shows those", name(mapName(m)), id, m.Type())
}

// describeOne describes an open map.
func describeOne(m *ebpf.Map) (Map, error) {
	id, err := idOf(m)
	if err != nil {
		return Map{}, fmt.Errorf("looking at the map: %w", err)
	}
	all := []Map{{ID: id, Type: readable(m), Name: mapName(m), MaxEntries: m.MaxEntries()}}
	// A pinned map may be read without the privilege to look at others' programs.
	if err := describe(all); err != nil && !errors.Is(err, fs.ErrPermission) {
		return Map{}, err
	}
	return all[0], nil
}
