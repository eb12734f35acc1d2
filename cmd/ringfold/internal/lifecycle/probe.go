// Package lifecycle follows the life of processes (fork, exec, exit) on all CPUs, by BPF programs.
package lifecycle

import (
	_ "embed"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/perfbuf"
)

//go:embed lifecycle.bpf.o
var object []byte

// Probe is BPF programs in the kernel, which output to the perf event array "events".
type Probe struct {
	module *libbpfgo.Module
	since  uint64
}

// Load loads the programs of lifecycle.bpf.c, and attaches none. Errors say what the user can do.
func Load() (*Probe, error) { return LoadObject(object, "lifecycle") }

// LoadObject is Load for the programs of another object file.
func LoadObject(object []byte, name string) (*Probe, error) {
	bpfload.Listen()
	// Raising the limit on locked memory takes CAP_SYS_RESOURCE, and is not needed since Linux 5.11: libbpf knows.
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: name, SkipMemlockBump: true})
	if err != nil {
		return nil, bpfload.Explain(err)
	}
	if err := module.BPFLoadObject(); err != nil {
		module.Close()
		return nil, bpfload.Explain(err)
	}
	return &Probe{module: module}, nil
}

// Open sets up rings for the events. Do it before Attach: events without a ring are gone without a trace.
func (p *Probe) Open(o perfbuf.Options) (*perfbuf.Reader, error) {
	events, err := p.module.GetMap("events")
	if err != nil {
		return nil, err
	}
	return perfbuf.Open(events.FileDescriptor(), o)
}

// Attach starts the flow of events.
func (p *Probe) Attach() error {
	if err := p.module.AttachPrograms(); err != nil {
		return bpfload.Explain(err)
	}
	p.since = perfbuf.Now()
	return nil
}

// Since returns when Attach was done: programs are attached one by one, so events before that may be missing.
func (p *Probe) Since() uint64 { return p.since }

// Detach ends it. A program may still be running on another CPU then.
func (p *Probe) Detach() error { return p.module.DetachPrograms() }

// Close detaches and unloads the programs.
func (p *Probe) Close() { p.module.Close() }
