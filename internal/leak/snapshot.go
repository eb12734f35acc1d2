package leak

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// snapshot records the process's resources at one moment, as far as /proc shows them.
type snapshot struct {
	goroutines map[string]string // stacks by number
	files      map[string]bool   // descriptors, with their targets
	mappings   map[string]bool   // of perf events and BPF maps
	threads    int
}

func take() *snapshot {
	time.Sleep(time.Nanosecond) // the runtime opens its epoll descriptor
	// Descriptors first: the goroutine that is done with one may just be closing it.
	s := &snapshot{files: files(), mappings: mappings(), goroutines: goroutines()}
	tasks, _ := os.ReadDir("/proc/self/task")
	s.threads = len(tasks)
	return s
}

// beyond returns the resources that before does not have.
func (s *snapshot) beyond(before *snapshot) (more []string) {
	for _, id := range slices.Sorted(maps.Keys(s.goroutines)) {
		if _, old := before.goroutines[id]; !old {
			more = append(more, s.goroutines[id]+"\n")
		}
	}
	for _, file := range slices.Sorted(maps.Keys(s.files)) {
		if !before.files[file] {
			more = append(more, "file descriptor "+file)
		}
	}
	for _, mapping := range slices.Sorted(maps.Keys(s.mappings)) {
		if !before.mappings[mapping] {
			more = append(more, "mapping "+mapping)
		}
	}
	if most := before.threads + spareThreads(); s.threads > most {
		more = append(more, fmt.Sprintf("%d threads: there were %d, and more than %d is too many", s.threads, before.threads, most))
	}
	return more
}

// spareThreads is the number of threads that the runtime may keep: one per CPU, and one per call
// that has ever blocked at the same time.
func spareThreads() int { return 100 + 4*runtime.NumCPU() }

// goroutines returns the stacks of those that tests may have started.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	all := map[string]string{}
	for stack := range strings.SplitSeq(strings.TrimSpace(string(buf[:n])), "\n\n") {
		id, _, _ := strings.Cut(stack, " [") // goroutine 7 [chan receive]:
		switch {
		case strings.Contains(stack, "os/signal.loop("): // stays once started
		case strings.Contains(stack, "created by runtime."): // serves finalizers and cleanups
		default:
			all[id] = stack
		}
	}
	return all
}

// files returns the open descriptors.
func files() map[string]bool {
	const dir = "/proc/self/fd/"
	all := map[string]bool{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		target, err := os.Readlink(dir + e.Name())
		if err == nil { // else it is the one that dir is read with
			all[e.Name()+" -> "+target] = true
		}
	}
	return all
}

// mappings returns the lines of /proc/self/maps that are rings, or other maps' memory.
func mappings() map[string]bool {
	all := map[string]bool{}
	b, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "anon_inode:[perf_event]") || strings.Contains(line, "anon_inode:bpf-map") {
			all[strings.TrimSpace(line)] = true
		}
	}
	return all
}
