package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
)

// Probe is where process events come from: a lifecycle.Probe or a lifecycle.Simulation.
type Probe interface {
	Open(perfbuf.Options) (*perfbuf.Reader, error)
	Attach() error
	Since() uint64
	Close()
}

// Processes publishes a host's process events, as the command does without a map, until ctx is done.
// It closes the probe, and returns how many events were read and how many the rings lost.
func Processes(ctx context.Context, cmd *cobra.Command, probe Probe, a fleet.Address) (read, lost uint64, spool fleet.SinkStats, err error) {
	c := &config{sink: &a}
	if err := c.Args(cmd, nil); err != nil {
		return 0, 0, spool, err
	}
	sum, err := c.publishFrom(ctx, probe)
	if sum == nil {
		return 0, 0, spool, err
	}
	return sum.Events, sum.Lost - sum.Spool.SpoolFull, *sum.Spool, err
}

// publish publishes what is recorded, as this host's recording.
func (c *config) publish(cmd *cobra.Command) error {
	c.sink.Write.Note = cli.Notes(cmd)
	var probe Probe
	if !c.Named() { // found out before a spool is made, or servers are tried for ever
		var err error
		if probe, err = lifecycle.Load(); err != nil {
			return err
		}
	}
	sum, err := c.publishFrom(cmd.Context(), probe)
	if sum == nil {
		return err
	}
	return errors.Join(err, c.print(cmd, map[string]any{"summary": sum}, sum.String()))
}

// publishFrom publishes until there were enough events: of a probe, which it closes, or of maps
// without one. There is no summary if it has not begun.
func (c *config) publishFrom(ctx context.Context, probe Probe) (sum *summary, err error) {
	c.FlushEvery = fleet.Heartbeat
	var set *source.Set
	var in *perfbuf.Stream
	if probe == nil {
		set, err = c.Choose()
	} else {
		defer probe.Close()
		var reader *perfbuf.Reader
		if reader, err = probe.Open(perfbuf.Options{RingBytes: int(c.RingSize)}); err == nil {
			set, in, err = c.Processes(reader)
		}
	}
	if err != nil {
		return nil, err
	}
	defer set.Close()
	events, err := set.Events()
	if err != nil {
		return nil, err
	}
	sink, err := c.sink.OpenSink()
	if err != nil {
		return nil, err
	}
	sum, err = c.publishTo(ctx, sink, set, in, events, probe)
	stats, failed := sink.Close(err == nil)
	if sum == nil {
		return nil, cmp.Or(err, failed)
	}
	sum.Spool, sum.Lost = &stats, sum.Lost+stats.SpoolFull
	return sum, errors.Join(err, failed, set.Untimed())
}

func (c *config) publishTo(ctx context.Context, sink *fleet.Sink, set *source.Set, in *perfbuf.Stream, events []perfdata.EventInfo, probe Probe) (*summary, error) {
	rec, err := perfdata.NewRecorder(sink, perfdata.Options{Events: events, BufferBytes: fleet.BufferBytes})
	if err != nil {
		return nil, err
	}
	if probe == nil {
		if in, err = set.Open(perfbuf.Options{}); err != nil {
			return nil, err
		}
		sink.Begin(perfbuf.Now())
		set.Announce()
	} else {
		if err := probe.Attach(); err != nil {
			return nil, err
		}
		sink.Begin(probe.Since())
	}
	set.Note("publishing to %s as host %s", c.sink.Stream, cli.Printable(c.sink.Write.Host))
	begin := time.Now()
	end := c.run(ctx, set, in, rec)
	set.Close()
	if err = errors.Join(end, rec.Close()); err == nil {
		err = sink.Round(in.Watermark())
	}
	sum := &summary{}
	sum.recorded(c.sink.Stream, rec.Stats())
	sum.end(set, time.Since(begin))
	return sum, err
}

// spoolText says what has become of what was published.
func spoolText(s *fleet.SinkStats) string {
	text := fmt.Sprintf("; %d messages, of which %d were published (%d once more) and %d acknowledged; %d bytes left in the spool",
		s.Messages, s.Published, s.Retried, s.Acknowledged, s.SpoolBytes)
	if s.SpoolFull > 0 {
		text += fmt.Sprintf("; lost, as the spool was full: %d", s.SpoolFull)
	}
	return text
}
