package trace

import (
	"context"
	_ "embed"
	"errors"
	"io"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

//go:embed trace.bpf.o
var object []byte

// ownEvent names events of the command's own programs in recordings.
const ownEvent = "ringfold_trace"

// own writes a trace of what the command's own programs see.
func (c *config) own(ctx context.Context, stdout io.Writer) (sum summary, err error) {
	if err := c.Ready(); err != nil {
		return sum, err
	}
	programs, err := lifecycle.LoadObject(object)
	if err != nil {
		return sum, err
	}
	defer programs.Close()
	reader, err := programs.Open(c.options(perfbuf.Options{RingBytes: int(c.RingSize), CPUs: c.CPUs}))
	if err != nil {
		return sum, err
	}
	set := c.Own(ownEvent, reader)
	defer set.Close()
	in, err := reader.Stream(perfbuf.StreamOptions{})
	if err != nil {
		return sum, err
	}
	if err := programs.Attach(); err != nil {
		return sum, err
	}
	show := func(l *timeline, ev source.Event) error { return handle(l, ev.Event) }
	if c.record != "" {
		rec, err := perfdata.Create(c.record, perfdata.Options{Events: []perfdata.EventInfo{{Name: ownEvent}}})
		if err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, rec.Close()) }()
		show = func(l *timeline, ev source.Event) error {
			if err := rec.Record(ev.Event); err != nil {
				return err
			}
			return handle(l, ev.Event)
		}
	}
	// The kernel attaches and detaches programs one after the other. Events from before all are attached would not fit together.
	r := &reading{config: c, set: set, stdout: stdout, live: true, start: perfbuf.Now(), stop: programs.Detach, show: show}
	return r.run(ctx, in)
}
