// Package bpfmaps finds the perf event arrays and BPF ring buffers of the system, whichever program
// loaded them, and shows whether one seems to have a reader. cilium/ebpf walks the kernel's maps and
// programs.
//
// list.go finds maps and programs, processes.go their holders, pins.go their pins; selector.go reads
// the names of maps, choose.go finds those that are meant, and target.go opens them.
package bpfmaps

import (
	"fmt"
	"os"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// Map is a perf event array, a BPF ring buffer, or an array or hash of ring buffers. As JSON, it has
// the keys that bpftool's "map list -j" has, and our own.
type Map struct {
	ID         uint32    `json:"id"`
	Type       string    `json:"type"` // as bpftool names it, such as "perf_event_array" or "ringbuf"
	Name       string    `json:"name"`
	MaxEntries uint32    `json:"max_entries"`
	Overwrites bool      `json:"overwrites,omitempty"` // of ring buffers: programs overwrite the oldest events
	Programs   []Program `json:"programs"`             // loaded programs that use the map, by id
	Processes  Processes `json:"pids"`                 // those that hold a descriptor of the map, by pid, this one too
	Pins       []string  `json:"pinned"`               // paths, sorted
	// Unseen says why there may be processes that hold the map and are not among Processes; empty if
	// there are none.
	Unseen string `json:"unseen,omitempty"`
}

// Program is a BPF program.
type Program struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"` // as its loader has named it, cut off at 15 bytes unless BTF says more
	Type string `json:"type"` // such as "Tracing"
}

// Process is a process that holds a map.
type Process struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
	// Rings counts its mappings of perf events: a reader of perf event arrays has one for each CPU. For
	// a ring buffer, it counts mappings of maps: a reader has two of each. -1 if that cannot be seen.
	Rings int `json:"rings"`
}

// Processes are some processes.
type Processes []Process

// RingBuf reports whether it is a BPF ring buffer, or has ring buffers in it.
func (m Map) RingBuf() bool { return m.Type != "" && m.Type != perfEventArray }

const perfEventArray = "perf_event_array"

// String is such as "events (id 12)".
func (m Map) String() string { return fmt.Sprintf("%s (id %d)", name(m.Name), m.ID) }

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

// Others are the processes that hold the map, except this one.
func (m Map) Others() (others Processes) {
	for _, p := range m.Processes {
		if p.PID != os.Getpid() {
			others = append(others, p)
		}
	}
	return others
}

// String is such as "opensnoop (pid 345)".
func (p Process) String() string { return fmt.Sprintf("%s (pid %d)", cli.Printable(p.Comm), p.PID) }

func (all Processes) String() string { return join(all, Process.String) }

// String is such as "handle_exit (id 7, Tracing)".
func (p Program) String() string { return fmt.Sprintf("%s (id %d, %s)", name(p.Name), p.ID, p.Type) }

// name is for objects that may have none.
func name(s string) string {
	if s == "" {
		return "(no name)"
	}
	return cli.Printable(s)
}

// join makes a list in a sentence.
func join[T any](all []T, word func(T) string) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = word(one)
	}
	return strings.Join(words, ", ")
}
