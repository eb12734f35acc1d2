package tail

import (
	"bufio"
	"context"
	"io"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
)

// printer turns events into bytes.
type printer interface {
	header(b []byte) []byte
	event(b []byte, ev source.Event) []byte
	summary(b []byte, s *summary) []byte
}

// run prints events until there were enough, and the summary.
func (c *config) run(ctx context.Context, cmd *cobra.Command) error {
	if err := c.check(); err != nil {
		return err
	}
	set, err := c.Choose()
	if err != nil {
		return err
	}
	defer set.Close()
	if c.Fleet == nil { // of which nobody knows the fields yet
		if err := set.CheckFields(c.fields); err != nil {
			return err
		}
	}
	in, err := set.Open(perfbuf.Options{})
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	out := bufio.NewWriterSize(stdout, 64<<10)
	p := c.printer(set, stdout)
	set.Announce()
	if !c.quiet {
		out.Write(p.header(nil))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	var line []byte
	began := uint64(time.Now().UnixNano())
	end := set.Run(ctx, in, func(ev source.Event) error {
		if c.each != nil {
			c.each(ev)
		}
		if ev.From.Live != nil && ev.Kind() == perfbuf.KindSample && ev.Time() >= began {
			c.delay.Add(ev.Age())
		}
		if c.quiet {
			return nil
		}
		if len(c.fields) > 0 && ev.Fields != nil {
			ev.Fields = ev.Fields.Select(c.fields)
		}
		line = p.event(line[:0], ev)
		_, err := out.Write(line)
		return err
	}, out.Flush)
	return set.Finish(end, func() error {
		out.Write(p.summary(nil, c.summary(set)))
		return out.Flush()
	})
}

// Fleet is the command tail of a stream of hosts' recordings. It calls each with every event.
func Fleet(ctx context.Context, cmd *cobra.Command, a fleet.Address, o cli.Output, each func(source.Event)) error {
	c := &config{Output: o, each: each}
	c.Fleet = &a
	if err := c.Args(cmd, nil); err != nil {
		return err
	}
	return c.run(ctx, cmd)
}

func (c *config) printer(set *source.Set, stdout io.Writer) printer {
	switch c.Format {
	case cli.JSON:
		return jsonLines{clock: newClock(c, set)}
	case cli.Compact:
		return &compact{clock: newClock(c, set)}
	}
	return newText(c, set, stdout)
}
