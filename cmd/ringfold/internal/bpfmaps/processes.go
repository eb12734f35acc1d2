package bpfmaps

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// findProcesses adds to each map the processes that hold a descriptor of it, and says if there may be others.
//
// A reader need not keep the map's descriptor, but all that are known do (libbpf, bcc, cilium/ebpf, ringfold): it takes
// one to let go of the rings.
func findProcesses(maps []Map) {
	byID := map[uint32]*Map{}
	for i := range maps {
		byID[maps[i].ID] = &maps[i]
	}
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
		for id := range held {
			if m := byID[id]; m != nil {
				m.Processes = append(m.Processes, process(dir, m.RingBuf()))
			}
		}
	}
	for i := range maps {
		maps[i].Unseen = unseen
	}
}

// heldMaps returns the ids of all maps that a process has descriptors of. The process may end meanwhile.
func heldMaps(dir string) (ids map[uint32]bool, err error) {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if target, _ := os.Readlink(dir + "/fd/" + fd.Name()); target != "anon_inode:bpf-map" {
			continue
		}
		info, _ := os.ReadFile(dir + "/fdinfo/" + fd.Name())
		if id, ok := mapID(info); ok {
			if ids == nil {
				ids = map[uint32]bool{}
			}
			ids[id] = true
		}
	}
	return ids, nil
}

// mapID finds the line "map_id:	12" of a map's fdinfo.
func mapID(fdinfo []byte) (id uint32, ok bool) {
	for line := range bytes.Lines(fdinfo) {
		if value, ok := bytes.CutPrefix(line, []byte("map_id:")); ok {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 32)
			return uint32(n), err == nil
		}
	}
	return 0, false
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
