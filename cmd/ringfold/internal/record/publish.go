package record

import (
	"cmp"
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

// publish publishes what is recorded, as this host's recording.
func (c *config) publish(cmd *cobra.Command) (err error) {
	a := *c.sink
	a.Write.Note = cli.Notes(cmd)
	c.FlushEvery = fleet.Heartbeat
	var set *source.Set
	var in *perfbuf.Stream
	attach, detach := func() (uint64, error) { return perfbuf.Now(), nil }, func() {}
	if c.Named() {
		if set, err = c.Choose(); err != nil {
			return err
		}
	} else { // found out before a spool is made, or servers are tried for ever
		probe, err := lifecycle.Load()
		if err != nil {
			return err
		}
		detach = probe.Close
		attach = func() (uint64, error) { err := probe.Attach(); return probe.Since(), err }
		reader, err := probe.Open(perfbuf.Options{RingBytes: int(c.RingSize)})
		if err == nil {
			set, in, err = c.Processes(reader)
		}
		if err != nil {
			detach()
			return err
		}
	}
	defer detach()
	defer set.Close()
	events, err := set.Events()
	if err != nil {
		return err
	}
	sink, err := a.OpenSink()
	if err != nil {
		return err
	}
	sum, err := c.publishTo(cmd, sink, set, in, events, attach)
	stats, failed := sink.Close(err == nil)
	if sum == nil {
		return cmp.Or(err, failed)
	}
	sum.Spool, sum.Lost = &stats, sum.Lost+stats.SpoolFull
	return errors.Join(err, failed, c.print(cmd, map[string]any{"summary": sum}, sum.String()), set.Untimed())
}

// publishTo records to a sink until there were enough events. There is no summary if it has not begun.
func (c *config) publishTo(cmd *cobra.Command, sink *fleet.Sink, set *source.Set, in *perfbuf.Stream, events []perfdata.EventInfo,
	attach func() (uint64, error)) (*summary, error) {
	rec, err := perfdata.NewRecorder(sink, perfdata.Options{Events: events, BufferBytes: 64 << 10})
	if err == nil && in == nil {
		in, err = set.Open(perfbuf.Options{})
	}
	var since uint64
	if err == nil {
		since, err = attach()
	}
	if err != nil {
		return nil, err
	}
	sink.Begin(since)
	if c.Named() {
		set.Announce()
	}
	set.Note("publishing to %s as host %s", c.sink.Stream, cli.Printable(c.sink.Write.Host))
	begin := time.Now()
	end := c.run(cmd, set, in, rec)
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
