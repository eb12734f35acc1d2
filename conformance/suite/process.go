package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Process is what can be seen of an adapter from outside.
type Process struct {
	Events   int // descriptors of perf events
	Files    int // descriptors in all
	Rings    int // mappings of perf events and of BPF maps
	RingSize int // bytes of them
	Threads  int
	Resident int           // bytes
	CPU      time.Duration // on CPUs so far, all threads
	Switches int           // times that threads went to sleep
}

// Look looks at the adapter's process.
func (s *Subject) Look() (p Process) {
	pid := s.cmd.Process.Pid
	dir := fmt.Sprintf("/proc/%d/", pid)
	fds, err := os.ReadDir(dir + "fd")
	s.t.must(err)
	for _, fd := range fds {
		p.Files++
		if link, _ := os.Readlink(dir + "fd/" + fd.Name()); link == "anon_inode:[perf_event]" {
			p.Events++
		}
	}
	maps, err := os.ReadFile(dir + "maps")
	s.t.must(err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[perf_event]") || strings.Contains(line, "bpf-map") || strings.Contains(line, "bpf_ringbuf") {
			p.Rings++
			from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
			begin, _ := strconv.ParseUint(from, 16, 64)
			end, _ := strconv.ParseUint(to, 16, 64)
			p.RingSize += int(end - begin)
		}
	}
	p.Resident = int(statusNumber(dir+"status", "VmRSS:")) << 10
	tasks, err := filepath.Glob(dir + "task/*")
	s.t.must(err)
	for _, task := range tasks {
		p.Threads++
		p.Switches += int(statusNumber(task+"/status", "voluntary_ctxt_switches:"))
		if b, err := os.ReadFile(task + "/schedstat"); err == nil && len(strings.Fields(string(b))) > 0 {
			ns, _ := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
			p.CPU += time.Duration(ns)
		}
	}
	return p
}

// statusNumber reads a number after its name, at the beginning of a line.
func statusNumber(path, name string) (n int64) {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ = strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return n
}
