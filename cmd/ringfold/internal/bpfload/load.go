package bpfload

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// Programs are BPF programs in the kernel, and their maps.
type Programs struct {
	*ebpf.Collection
	spec  *ebpf.CollectionSpec
	links []link.Link
}

// Load loads the programs of an object file, and attaches none. Errors say what the user can do.
func Load(object []byte) (*Programs, error) {
	rlimit.RemoveMemlock() // before Linux 5.11; what that fails for, loading says better
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, explain(err)
	}
	return &Programs{Collection: c, spec: spec}, nil
}

// Attach attaches all programs, each to the tracepoint that its section names. After an error none
// is attached.
func (p *Programs) Attach() error {
	for _, name := range slices.Sorted(maps.Keys(p.spec.Programs)) {
		l, err := link.AttachTracing(link.TracingOptions{Program: p.Programs[name]})
		if err != nil {
			return errors.Join(explain(fmt.Errorf("attaching to %s: %w", p.spec.Programs[name].AttachTo, err)), p.Detach())
		}
		p.links = append(p.links, l)
	}
	return nil
}

// RunOn runs a program on a CPU, with a context. The error is ENXIO if the CPU is offline.
func (p *Programs) RunOn(cpu int, name string, context any) error {
	const onCPU = 1 // BPF_F_TEST_RUN_ON_CPU
	_, err := p.Collection.Programs[name].Run(&ebpf.RunOptions{Context: context, Flags: onCPU, CPU: uint32(cpu)})
	return err
}

// Detach detaches them. A program may still be running on another CPU then.
func (p *Programs) Detach() (errs error) {
	for _, l := range p.links {
		errs = errors.Join(errs, l.Close())
	}
	p.links = nil
	return errs
}

// Close detaches and unloads them.
func (p *Programs) Close() {
	p.Detach()
	p.Collection.Close()
}
