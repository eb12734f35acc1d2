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
	"github.com/ringfold/ringfold/cmd/ringfold/internal/record"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
)

// host publishes process events.
type host struct {
	record.Probe
	name  string
	began func() // called then, or when it has failed
	err   error

	recorded
	came fleet.Host // as it was printed: Events, Lost, and Gaps that do not know how many are missing
}

// recorded is what a host says.
type recorded struct {
	Read      uint64 `json:"read"`
	Lost      uint64 `json:"lost"`       // by the rings
	SpoolFull uint64 `json:"spool_full"` // of those that were read
}

// Attach is that of its Probe.
func (h *host) Attach() error {
	defer h.began()
	return h.Probe.Attach()
}

// publish publishes until ctx is done.
func (d *demo) publish(ctx context.Context, h *host) error {
	a, err := fleet.Parse(fmt.Sprintf("%s/%s?host=%s&spool=%s", d.server.URL(), stream, h.name, filepath.Join(d.dir, h.name+".spool")), true)
	if err != nil {
		return err
	}
	a.Write.EndWait = time.Minute
	a.Write.Note = func(text string) { d.note(h.name + ": " + text) }
	var spool fleet.SinkStats
	h.Read, h.Lost, spool, err = record.Processes(ctx, d.cmd, h, a)
	h.SpoolFull = spool.SpoolFull
	return err
}

// event looks at an event as it is printed.
func (d *demo) event(ev source.Event) {
	d.disorder = d.disorder || ev.Time() < d.last
	d.last = ev.Time()
	for _, h := range d.hosts {
		switch {
		case h.name != ev.From.Host:
		case ev.Kind() == perfbuf.KindSample:
			h.came.Events++
		case ev.Lost() > 0:
			h.came.Lost += ev.Lost()
		case ev.Reason() != "":
			h.came.Gaps++
		}
	}
}

// conclude checks that all is there.
func (d *demo) conclude() (err error) {
	if d.disorder {
		err = errors.New("events came out of order")
	}
	hosts := map[string]recorded{}
	for _, h := range d.hosts {
		hosts[h.name] = h.recorded
		if h.came.Gaps == 0 && (h.came.Events != h.Read-h.SpoolFull || h.came.Lost != h.Lost+h.SpoolFull) {
			err = errors.Join(err, fmt.Errorf("%s: %d events were recorded, %d lost, and %d did not fit into the spool; %d came, and %d are said to be lost",
				h.name, h.Read, h.Lost, h.SpoolFull, h.came.Events, h.came.Lost))
		}
	}
	out := d.cmd.OutOrStdout()
	if d.output.Format == cli.JSON {
		return errors.Join(json.NewEncoder(out).Encode(map[string]any{"hosts": hosts, "in_order": !d.disorder}), err)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, "checked: in order, and all that the hosts have recorded was printed, or is counted as lost")
	}
	return err
}
