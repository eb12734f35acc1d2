// Package lifecycle follows the life of processes (fork, exec, exit) on all CPUs, by BPF programs.
package lifecycle

import (
	"bytes"
	_ "embed"

	"github.com/cilium/ebpf/btf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/perfbuf"
)

//go:embed lifecycle.bpf.o
var object []byte

// Probe is BPF programs in the kernel, which output to the perf event array "events".
type Probe struct {
	*bpfload.Programs
	since uint64
}

// Load loads the programs of lifecycle.bpf.c, and attaches none. Errors say what the user can do.
func Load() (*Probe, error) { return LoadObject(object) }

// LoadObject is Load for the programs of another object file.
func LoadObject(object []byte) (*Probe, error) {
	programs, err := bpfload.Load(object)
	if err != nil {
		return nil, err
	}
	return &Probe{Programs: programs}, nil
}

// Types has the type of an event, a struct process.
func Types() (*btf.Spec, error) { return btf.LoadSpecFromReader(bytes.NewReader(object)) }

// Open sets up rings for the events. Do it before Attach: events without a ring are gone without a trace.
func (p *Probe) Open(o perfbuf.Options) (*perfbuf.Reader, error) {
	return perfbuf.Open(p.Maps["events"].FD(), o)
}

// Attach starts the flow of events.
func (p *Probe) Attach() error {
	err := p.Programs.Attach()
	p.since = perfbuf.Now()
	return err
}

// Since returns when Attach was done: programs are attached one by one, so events before that may be missing.
func (p *Probe) Since() uint64 { return p.since }
