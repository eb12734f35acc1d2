package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/clock"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
)

// host publishes process events.
type host struct {
	name, boot string
	clock      func() clock.Reading
	events     events

	recorded perfdata.Stats
	sink     fleet.SinkStats
	err      error
}

// events are a lifecycle.Probe or a lifecycle.Simulation.
type events interface {
	Open(perfbuf.Options) (*perfbuf.Reader, error)
	Attach() error
	Since() uint64
	Detach() error
	Close()
}

// publish publishes until ctx is done. It calls begun once the host has begun, or has failed.
func (d *demo) publish(ctx context.Context, h *host, begun func()) (err error) {
	defer begun()
	defer h.events.Close()
	reader, err := h.events.Open(perfbuf.Options{})
	if err != nil {
		return err
	}
	flags := source.Flags{FlushEvery: fleet.Heartbeat}
	set, in, err := flags.Processes(reader)
	if err != nil {
		return err
	}
	defer set.Close()
	list, err := set.Events()
	if err != nil {
		return err
	}
	a, err := fleet.Parse(fmt.Sprintf("%s/%s?host=%s&max-age=1h&spool=%s", d.server.URL(), stream, h.name, filepath.Join(d.dir, h.name+".spool")), true)
	if err != nil {
		return err
	}
	// What was under way when the server stopped is sent again soon.
	a.Write.Boot, a.Write.Clock, a.Write.EndWait, a.Write.AckWait = h.boot, h.clock, time.Minute, time.Second
	a.Write.Note = func(text string) { d.note(h.name + ": " + text) }
	sink, err := a.OpenSink()
	if err != nil {
		return err
	}
	rec, err := perfdata.NewRecorder(sink, perfdata.Options{Events: list, BufferBytes: 64 << 10})
	if err == nil {
		err = h.events.Attach()
	}
	if err == nil {
		sink.Begin(h.events.Since())
		select { // whoever reads needs the stream
		case <-sink.Made():
		case <-ctx.Done():
		}
		begun()
		if err = rec.Run(ctx, in); ctx.Err() != nil && err == context.Cause(ctx) {
			err = nil
		}
		err = errors.Join(err, h.events.Detach())
		drain, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("programs still run %v after they were detached", patience))
		defer cancel()
		if err = errors.Join(err, in.Drain(drain, rec.Record), rec.Close()); err == nil {
			err = sink.Round(in.Watermark())
		}
	}
	h.recorded = rec.Stats()
	var failed error
	if h.sink, failed = sink.Close(err == nil); failed == nil && h.sink.SpoolBytes > 0 {
		failed = fmt.Errorf("%d bytes are left in its spool", h.sink.SpoolBytes)
	}
	return errors.Join(err, failed)
}

// checker looks at the events as they are printed.
type checker struct {
	last     uint64
	disorder error
	hosts    map[string]*seen
}

// seen is what has come of a host.
type seen struct {
	events, lost uint64
	unknown      bool // a gap does not know how many are missing
}

func (c *checker) event(ev source.Event) {
	h := c.hosts[ev.From.Host]
	if h == nil {
		h = &seen{}
		c.hosts[ev.From.Host] = h
	}
	if at := ev.Time(); at < c.last && c.disorder == nil {
		c.disorder = fmt.Errorf("out of order: an event of %s came %v after a later one", ev.From.Host, time.Duration(c.last-at))
	} else {
		c.last = max(at, c.last)
	}
	if ev.Kind() == perfbuf.KindSample {
		h.events++
		return
	}
	h.lost += ev.Lost()
	h.unknown = h.unknown || ev.Lost() == 0 && ev.Reason() != ""
}

// verdict is the last object.
type verdict struct {
	Hosts   map[string]recorded `json:"hosts"`
	InOrder bool                `json:"in_order"`
}

type recorded struct {
	Read      uint64 `json:"read"`
	Lost      uint64 `json:"lost"`       // by the rings
	SpoolFull uint64 `json:"spool_full"` // of those that were read
}

// conclude checks that all is there.
func (d *demo) conclude(c *checker) error {
	v, err := verdict{Hosts: map[string]recorded{}, InOrder: c.disorder == nil}, c.disorder
	for _, h := range d.hosts {
		r := recorded{h.recorded.Samples, h.recorded.Lost, h.sink.SpoolFull}
		v.Hosts[h.name] = r
		s := c.hosts[h.name]
		if s == nil {
			s = &seen{}
		}
		if !s.unknown && (s.events != r.Read-r.SpoolFull || s.lost != r.Lost+r.SpoolFull) { // else the gap says so
			err = errors.Join(err, fmt.Errorf("%s: %d events were recorded, %d lost, and %d did not fit into the spool; %d came, and %d are said to be lost",
				h.name, r.Read, r.Lost, r.SpoolFull, s.events, s.lost))
		}
	}
	out := d.cmd.OutOrStdout()
	if d.output.Format == cli.JSON {
		return errors.Join(json.NewEncoder(out).Encode(v), err)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, "checked: in order, and all that the hosts have recorded was printed, or is counted as lost")
	}
	return err
}
