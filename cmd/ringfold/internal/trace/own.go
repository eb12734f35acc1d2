package trace

import (
	"context"
	_ "embed"
	"errors"

	"github.com/aquasecurity/libbpfgo"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

//go:embed trace.bpf.o
var object []byte

// ownEvent is how events of the command's own programs are called in recordings.
const ownEvent = "ringfold_trace"

// own writes a trace of what the command's own programs see.
func (c *config) own(ctx context.Context, w *output) (sum summary, err error) {
	if err := c.Ready(); err != nil {
		return sum, err
	}
	module, err := load()
	if err != nil {
		return sum, err
	}
	defer module.Close()
	events, err := module.GetMap("events")
	if err != nil {
		return sum, err
	}
	reader, err := perfbuf.Open(events.FileDescriptor(), c.options(perfbuf.Options{RingBytes: int(c.RingSize), CPUs: c.CPUs}))
	if err != nil {
		return sum, err
	}
	set := c.Own(ownEvent, reader)
	defer set.Close()
	in, err := reader.Stream(perfbuf.StreamOptions{})
	if err != nil {
		return sum, err
	}
	if err := module.AttachPrograms(); err != nil {
		return sum, bpfload.Explain(err)
	}
	var rec *perfdata.Recorder
	if c.record != "" {
		if rec, err = perfdata.Create(c.record, perfdata.Options{Events: []perfdata.EventInfo{{Name: ownEvent}}}); err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, rec.Close()) }()
	}
	// Programs are attached, and detached, one after the other. What comes while some are not would not fit together.
	r := &reading{config: c, set: set, sum: &sum, live: true, start: perfbuf.Now(), stop: module.DetachPrograms, show: func(l *timeline, ev source.Event) error {
		if rec != nil && l.within(ev.Time()) {
			if err := rec.Record(ev.Event); err != nil {
				return err
			}
		}
		return handle(l, ev.Event)
	}}
	return sum, r.run(ctx, in, w)
}

// load loads the programs.
func load() (*libbpfgo.Module, error) {
	bpfload.Listen()
	module, err := libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, BPFObjName: ownEvent, SkipMemlockBump: true})
	if err != nil {
		return nil, bpfload.Explain(err)
	}
	if err := module.BPFLoadObject(); err != nil {
		module.Close()
		return nil, bpfload.Explain(err)
	}
	return module, nil
}
