package demo

import (
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/perfbuf"
)

// source is where events come from: BPF programs, or a simulation of them.
type source interface {
	// open sets up rings for the events. None comes before attach.
	open(perfbuf.Options) (*perfbuf.Reader, error)
	// attach starts the flow of events.
	attach() error
	// detach ends it. A program may still be running on another CPU then.
	detach() error
	// now is the clock that the events' times are of.
	now() uint64
	// close gives everything back, whatever was called before.
	close()
}

// probe is the source of real events.
type probe struct {
	programs *lifecycle.Probe
	clock    host.Clock
}

func (p *probe) open(o perfbuf.Options) (r *perfbuf.Reader, err error) {
	if p.clock, err = host.NewClock(); err != nil {
		return nil, err
	}
	if p.programs, err = lifecycle.Load(); err != nil {
		return nil, err
	}
	return p.programs.Open(o)
}

func (p *probe) attach() error { return p.programs.Attach() }

func (p *probe) detach() error { return p.programs.Detach() }

func (p *probe) now() uint64 { return p.clock.Now() }

func (p *probe) close() {
	if p.programs != nil {
		p.programs.Close()
	}
}
