package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/otlp"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
)

// exports reads the address, and checks that no flag is for files.
func (c *config) exports() (err error) {
	if c.rotates() || c.maxFiles > 0 || c.compress || c.flight > 0 {
		return errors.New("--max-size, --max-age, --max-files, --compress and --flight are for files, not for a collector")
	}
	if c.collector, err = otlp.Parse(c.write); err != nil {
		err = fmt.Errorf("--write: %w", err)
	}
	return err
}

// export sends events to an OpenTelemetry collector, until there were enough.
func (c *config) export(cmd *cobra.Command) error {
	c.WallClock = len(c.Files) > 0 // by its own: what this machine's clocks show says nothing about a recording
	set, err := c.Choose()
	if err != nil {
		return err
	}
	defer set.Close()
	out, err := otlp.New(cmd.Context(), c.collector, otlp.Options{Monotonic: !set.Recorded(), Note: set.Note})
	if err != nil {
		return err
	}
	in, err := set.Open(perfbuf.Options{})
	if err != nil {
		return errors.Join(err, out.Close())
	}
	set.Announce()
	begin := time.Now()
	end := set.Run(cmd.Context(), in, out.Write, out.Err)
	set.Close()
	if err := out.Close(); err != nil { // it has the error of Write
		end = err
	}
	sum := &summary{}
	sum.exported(c.collector.String(), out.Stats())
	sum.end(set, time.Since(begin))
	return errors.Join(end, c.print(cmd, map[string]any{"summary": sum}, sum.String()), set.Untimed(), set.Unknown())
}

// exported counts what the collector has.
func (s *summary) exported(to string, stats otlp.Stats) {
	s.File, s.Bytes, s.Rejected = to, stats.Bytes, stats.Rejected
	s.Events, s.Lost, s.Shed, s.Corrupt = stats.Events, stats.Lost, stats.Shed, stats.Corrupt
}
