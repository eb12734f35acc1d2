package trace

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// others writes a trace of the maps or recordings that the command line names.
func (c *config) others(ctx context.Context, w *output) (sum summary, err error) {
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
	r := &reading{config: c, set: set, sum: &sum, live: len(c.Files) == 0, start: start, show: shown}
	return sum, r.run(ctx, in, w)
}

// shown shows an event of any program: as an instant on the track of its CPU, with its fields.
func shown(l *timeline, ev source.Event) error {
	if !l.within(ev.Time()) {
		return nil
	}
	if ev.From.File != "" && ev.From.Name == ownEvent {
		return handle(l, ev.Event)
	}
	var args any
	name := ev.From.Label
	if name == "" {
		name = ev.From.Name
	}
	switch ev.Kind() {
	case perfbuf.KindLost:
		return l.lost(ev.CPU(), ev.LostAfter(), ev.Time(), ev.Lost())
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
	if _, err := l.cpu(ev.CPU()); err != nil {
		return err
	}
	return l.trace.instant(track(ev.CPU()), l.since(ev.Time()), "event", name, args)
}

// mostBytes of a payload are shown if its type is not known.
const mostBytes = 32
