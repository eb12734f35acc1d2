package trace

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// others writes a trace of the maps or recordings that the command line names.
func (c *config) others(ctx context.Context, stdout io.Writer) (sum summary, err error) {
	start := perfbuf.Now()
	set, err := c.Choose()
	if err != nil {
		return sum, err
	}
	defer set.Close()
	in, err := set.Open(c.options(perfbuf.Options{}))
	if err != nil {
		return sum, err
	}
	set.Announce()
	r := &reading{config: c, set: set, stdout: stdout, live: !set.Recorded(), start: start, show: show}
	return r.run(ctx, in)
}

// show marks an event of any program on the track of its CPU, with its fields.
func show(l *timeline, ev source.Event) error {
	cpu := ev.CPU()
	if ev.From.Live != nil { // each host has tracks of its own, and so has what is of none
		cpu = l.host(cmp.Or(ev.From.Host, "fleet"), cpu)
	}
	if ev.From.File != "" && ev.From.Name == ownEvent {
		return handle(l, ev.Event)
	}
	var args any
	name := ev.From.Called()
	switch ev.Kind() {
	case perfbuf.KindLost, perfbuf.KindShed:
		l.lost(cpu, ev.LostAfter(), ev.Time(), ev.Lost(), ev.Kind(), ev.Reason())
		return nil
	case perfbuf.KindCorrupt:
		name, args = "corrupt", map[string]any{"error": ev.Err().Error()}
	case perfbuf.KindSample:
		l.sum.Events++
		if ev.Fields == nil {
			b := ev.Bytes()
			args = map[string]any{"size": len(b), "bytes": hex.EncodeToString(b[:min(len(b), mostBytes)])}
			break
		}
		args = json.RawMessage(ev.Fields.AppendJSON(nil))
		for _, f := range ev.Fields {
			if comm, ok := f.Value.(string); ok && f.Name == "comm" {
				name += " " + comm
			}
		}
	}
	l.cpu(cpu) // has a track
	l.write(cpu, ev.Time(), event{Phase: "i", Category: "event", Name: name, Scope: "t", Args: args})
	return nil
}

// mostBytes of a payload are shown if its type is not known.
const mostBytes = 32
