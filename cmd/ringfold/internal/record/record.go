package record

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/newfile"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfdata"
	"github.com/spf13/cobra"
)

// record records until there were enough events.
func (c *config) record(cmd *cobra.Command) error {
	c.Writes = []string{c.write}
	if c.rotates() {
		c.Writes = []string{newfile.Numbered(c.write, 1)}
		for _, n := range newfile.Series(c.write) { // --max-files may remove it
			if err := newfile.Clash(newfile.Numbered(c.write, n), c.Files, nil); err != nil {
				return err
			}
		}
	}
	set, err := c.Choose()
	if err != nil {
		return err
	}
	defer set.Close()
	events, err := set.Events()
	if err != nil {
		return err
	}
	in, err := set.Open(perfbuf.Options{})
	if err != nil {
		return err
	}
	if c.Fleet != nil { // hosts that come later are recorded as the first event, as gaps of no host are
		set.Settle(cmd.Context())
		if events, err = set.Events(); err != nil {
			return err
		}
		events = append([]perfdata.EventInfo{{Name: "fleet"}}, events...)
	}
	rec, err := c.create(c.write, cmd.OutOrStdout(), perfdata.Options{Events: events, WallClock: c.WallClock || c.Fleet != nil, MaxBytes: int64(c.maxSize), MaxAge: c.maxAge, MaxFiles: c.maxFiles})
	if err != nil {
		return err
	}
	set.Announce()
	begin := time.Now()
	end := c.run(cmd.Context(), set, in, rec)
	set.Close()
	if err := rec.Close(); err != nil && end == nil {
		end = err
	}
	if errors.Is(end, syscall.EPIPE) {
		return end // of a closed stdout nothing is said
	}
	sum := &summary{}
	sum.recorded(c.write, rec.Stats())
	sum.end(set, time.Since(begin))
	return errors.Join(end, c.print(cmd, map[string]any{"summary": sum}, sum.String()), set.Untimed(), set.Unknown()) // what was read before an error is there
}

// run records.
func (c *config) run(ctx context.Context, set *source.Set, in *perfbuf.Stream, rec *perfdata.Recorder) error {
	read := source.Stream(in)
	c.Marked = rec.Record
	if c.all() {
		read = batches{in, rec}
		for _, from := range set.All() {
			from.Decoder = nil // nobody wants fields
		}
	}
	return set.Run(ctx, read, func(ev source.Event) error { return rec.Record(ev.Event) }, rec.Flush)
}

// all reports whether every event is recorded, whatever it has.
func (c *config) all() bool {
	return !c.Filters() && c.CPUs == nil && c.Since == 0 && c.Count == 0
}

// create makes a recorder.
func (c *config) create(path string, stdout io.Writer, o perfdata.Options) (_ *perfdata.Recorder, err error) {
	if c.compress {
		if o.Compress, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, err
		}
	}
	if path == "-" {
		return perfdata.NewRecorder(cli.Unwrap(stdout), o)
	}
	return perfdata.Create(path, o)
}

// batches is a stream that a recorder reads by itself: it decodes nothing, and marks the rounds that are proved complete.
type batches struct {
	*perfbuf.Stream
	rec *perfdata.Recorder
}

func (b batches) RunBatches(ctx context.Context, _ func(*perfbuf.Batch) error) error {
	return b.rec.Run(ctx, b.Stream)
}
