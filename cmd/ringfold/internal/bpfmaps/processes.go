package bpfmaps

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// findProcesses adds to each map the processes that hold a descriptor of it, and says if there may be
// others.
//
// A reader need not keep the map's descriptor, but all known ones do (libbpf, bcc, cilium/ebpf,
// ringfold): it takes one to let go of the rings.
func findProcesses(maps []Map) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // by name
	unseen := ""
	if len(dirs) == 0 {
		unseen = "there is no /proc here"
	} else if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != "pid:[4026531836]" { // PROC_PID_INIT_INO
		unseen = "this pid namespace is not the system's first: processes outside of it cannot be seen"
	}
	for _, dir := range dirs {
		held, err := heldMaps(dir)
		if errors.Is(err, fs.ErrPermission) && unseen == "" {
			unseen = fmt.Sprintf("uid %d may not look into all processes, which takes CAP_SYS_PTRACE", os.Geteuid())
		}
		for i := range maps {
			if m := &maps[i]; slices.Contains(held, m.ID) {
				m.Processes = append(m.Processes, process(dir, m.RingBuf()))
			}
		}
	}
	for i := range maps {
		maps[i].Unseen = unseen
	}
}

var mapID = regexp.MustCompile(`(?m)^map_id:\s*(\d+)$`)

// heldMaps returns the ids of all maps that a process has descriptors of. The process may end meanwhile.
func heldMaps(dir string) (ids []uint32, err error) {
	fds, err := os.ReadDir(dir + "/fd")
	for _, fd := range fds {
		if target, _ := os.Readlink(dir + "/fd/" + fd.Name()); target != "anon_inode:bpf-map" {
			continue
		}
		info, _ := os.ReadFile(dir + "/fdinfo/" + fd.Name())
		if found := mapID.FindSubmatch(info); found != nil {
			id, _ := strconv.ParseUint(string(found[1]), 10, 32)
			ids = append(ids, uint32(id))
		}
	}
	return ids, err
}

// process describes a process by its directory in /proc.
func process(dir string, ringBuf bool) Process {
	pid, _ := strconv.Atoi(filepath.Base(dir))
	comm, _ := os.ReadFile(dir + "/comm")
	p := Process{PID: pid, Comm: strings.TrimSuffix(string(comm), "\n"), Rings: -1}
	if maps, err := os.ReadFile(dir + "/maps"); err == nil {
		mapping := "anon_inode:[perf_event]"
		if ringBuf {
			mapping = "anon_inode:bpf-map"
		}
		p.Rings = bytes.Count(maps, []byte(mapping))
	}
	return p
}

// heldBy returns those maps that a process holds, named by its comm or pid. There must be some.
func heldBy(all []Map, process string) (found []Map, err error) {
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
