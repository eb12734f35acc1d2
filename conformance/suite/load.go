package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/workload"
)

// collection has the workload in the kernel. It is loaded without C, so that the suite is one file for any Linux.
type collection struct{ *ebpf.Collection }

func (c collection) MapFD(name string) int  { return c.Maps[name].FD() }
func (c collection) ProgFD(name string) int { return c.Programs[name].FD() }

func (c collection) Attach(program string) (detach func() error, err error) {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: c.Programs[program]})
	if err != nil {
		return nil, err
	}
	return l.Close, nil
}

// load loads the programs that scenarios use, and the one map that they output to.
func (s *Source) load(c Config) error {
	rlimit.RemoveMemlock() // before Linux 5.11; what that fails for, loading says better
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(workload.Object))
	if err != nil {
		return err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	programs := []string{"run", "control", "on_syscall", "on_tick"}
	if c.Kind == "ringbuf" {
		programs = append(programs, "stamped")
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(programs, name) })
	mask := uint32(1) << s.Map()
	if c.Lanes {
		mask |= 1 << workload.Lane0
	}
	for name, value := range map[string]any{"maps": mask, "syscall_number": syscallNumber} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, entries := range map[string]int{"shared": c.Bytes, "patterns": cpus} {
		if entries > 0 {
			spec.Maps[name].MaxEntries = uint32(entries)
		}
	}
	// cilium/ebpf makes no perf event array that has more entries than there are CPUs.
	fd, err := bpf.MapCreate(bpf.MapTypePerfEventArray, "events", 4, 4, cmp.Or(c.Entries, cpus), 0)
	if err != nil {
		return err
	}
	events, err := ebpf.NewMapFromFD(fd)
	if err != nil {
		return err
	}
	for _, program := range spec.Programs {
		if err := program.Instructions.AssociateMap("events", events); err != nil && !errors.Is(err, asm.ErrUnreferencedSymbol) {
			return err
		}
	}
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		events.Close()
		return err
	}
	loaded.Maps["events"].Close()
	loaded.Maps["events"] = events
	s.Programs, err = workload.Loaded(collection{loaded}, cpus)
	return err
}
