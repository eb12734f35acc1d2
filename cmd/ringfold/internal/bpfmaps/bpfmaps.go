// Package bpfmaps finds the perf event arrays and BPF ring buffers of the system, whichever program loaded them, and tells
// whether one seems to have a reader. cilium/ebpf walks the kernel's maps and programs.
//
// list.go finds maps and programs, processes.go who holds them, pins.go where they are pinned; selectors.go and selector.go choose some, and
// target.go opens them.
package bpfmaps

import (
	"fmt"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// Map is a perf event array, a BPF ring buffer, or an array or hash of such.
type Map struct {
	ID         uint32
	Type       string // as bpftool names it, such as "perf_event_array" or "ringbuf"
	Name       string
	MaxEntries uint32
	Programs   []Program // loaded programs that use the map, by id
	Processes  []Process // processes that hold a descriptor of the map, by pid, this one too
	Pins       []string  // paths, sorted
	// Unseen is why there may be processes that hold the map and are not among Processes; empty if there are none.
	Unseen string
}

// Program is a BPF program.
type Program struct {
	ID   uint32
	Name string // as its loader has named it, cut off at 15 bytes unless BTF says more
	Type string // such as "Tracing"
}

// Process is a process that holds a map.
type Process struct {
	PID  int
	Comm string // whatever it calls itself
	// Rings is how many mappings of perf events it has: a reader of perf event arrays has one for each CPU. For a ring buffer, it is how many
	// mappings of maps: a reader has two of each. -1 if that cannot be seen.
	Rings int
}

// RingBuf reports whether it is a BPF ring buffer, or has such in it.
func (m Map) RingBuf() bool { return m.Type != "" && m.Type != perfEventArray }

const perfEventArray = "perf_event_array"

// String is such as "events (id 12)".
func (m Map) String() string { return fmt.Sprintf("%s (id %d)", name(m.Name), m.ID) }

// String is such as "opensnoop (pid 345)".
func (p Process) String() string { return fmt.Sprintf("%s (pid %d)", cli.Printable(p.Comm), p.PID) }

// String is such as "handle_exit (id 7, Tracing)".
func (p Program) String() string { return fmt.Sprintf("%s (id %d, %s)", name(p.Name), p.ID, p.Type) }

// name is for what may have none.
func name(s string) string {
	if s == "" {
		return "(no name)"
	}
	return cli.Printable(s)
}

// join is a list in a sentence.
func join[T fmt.Stringer](all []T) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.String()
	}
	return strings.Join(words, ", ")
}
