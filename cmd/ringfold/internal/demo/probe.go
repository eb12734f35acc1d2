package demo

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/perfbuf"
)

//go:embed ordered.bpf.o
var object []byte

// probe is the source of real events: the BPF programs of ordered.bpf.c, in the kernel.
type probe struct {
	sched  bool
	module *libbpfgo.Module
	clock  func() uint64
}

// open loads the programs, and opens their map.
func (p *probe) open(o perfbuf.Options) (*perfbuf.Reader, error) {
	p.clock = newClock()
	bpfload.Listen()
	events, err := p.load()
	if err != nil {
		return nil, explain(err)
	}
	r, err := perfbuf.Open(events.FileDescriptor(), o)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w.%s", err, instead)
	}
	return r, err
}

// load returns the perf event array.
func (p *probe) load() (events *libbpfgo.BPFMap, err error) {
	// Raising the limit on locked memory takes CAP_SYS_RESOURCE, and is not needed since Linux 5.11: libbpf knows.
	p.module, err = libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: "ordered", SkipMemlockBump: true})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"on_wakeup", "on_switch"} {
		prog, err := p.module.GetProgram(name)
		if err != nil {
			return nil, err
		}
		if err := prog.SetAutoload(p.sched); err != nil {
			return nil, err
		}
	}
	if err := p.module.BPFLoadObject(); err != nil {
		return nil, err
	}
	return p.module.GetMap("events")
}

func (p *probe) attach() error {
	if err := p.module.AttachPrograms(); err != nil {
		return explain(err)
	}
	return nil
}

func (p *probe) detach() error { return p.module.DetachPrograms() }

func (p *probe) now() uint64 { return p.clock() }

// close detaches and unloads the programs.
func (p *probe) close() {
	if p.module != nil {
		p.module.Close()
	}
}

// instead is for those who may not load BPF programs.
const instead = "\nTo see it without: ordered -simulate."

// explain says what the user can do about a failure to load the programs.
func explain(err error) error {
	err = bpfload.Explain(err)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w.%s", err, instead)
	}
	return err
}
