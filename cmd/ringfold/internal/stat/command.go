// Package stat counts events per map and CPU, as perf stat counts: over all the time that it reads, or per interval.
//
// counts.go counts, text.go prints.
package stat

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config is what the flags say.
type config struct {
	source.Flags
	cli.Output
	interval time.Duration
}

// Command is "ringfold stat".
func Command() *cobra.Command {
	c := &config{}
	cmd := &cobra.Command{
		Use:   "stat " + source.Usage,
		Short: "Count events, bytes and losses per map and CPU",
		Long: `Count the events of maps or recordings: events, bytes of their payloads and losses per map and CPU,
wakeups and late events per map, and how long events took to arrive. It ends with Ctrl-C, after --timeout, or
with the command behind --.

Name maps or recordings as for "ringfold tail". stat reads the events, and discards them. Another
reader of a perf event array receives nothing from then on, until it is restarted, so stat refuses
such a map without --steal.`,
		Example: `  ringfold stat name events --steal -- make
  ringfold stat --process execsnoop --steal -i 1s --timeout 1m
  ringfold stat events.data --type event --filter 'ret < 0' --json`,
		Args: c.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case c.interval != 0 && c.interval < 10*time.Millisecond:
				return cli.Usagef("--interval %v is too short: 10ms at least", c.interval)
			case c.interval != 0 && len(c.Files) > 0:
				return cli.Usagef("--interval is for maps: a recording is read as fast as possible")
			}
			return c.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	c.Which(fs)
	c.What(fs)
	c.Order(fs)
	c.Types(fs)
	cli.Group(fs, "Output", func(fs *pflag.FlagSet) {
		fs.DurationVarP(&c.interval, "interval", "i", 0, "also print the counts of each `duration`, such as 1s")
		c.Output.Flags(fs)
	})
	c.Complete(cmd)
	return cmd
}

// run counts until there were enough.
func (c *config) run(ctx context.Context, stdout io.Writer) error {
	set, err := c.Choose()
	if err != nil {
		return err
	}
	defer set.Close()
	in, err := set.Open(perfbuf.Options{})
	if err != nil {
		return err
	}
	set.Announce()
	n := newCounter(set)
	reading, cancel := context.WithCancel(ctx)
	var printing sync.WaitGroup
	var failed error
	if c.interval > 0 {
		printing.Go(func() {
			failed = n.each(reading, c.interval, func(n *counts) error { return c.print(stdout, n, false) })
			cancel()
		})
	}
	end := set.Run(reading, in, n.event, n.flush)
	cancel()
	printing.Wait()
	if end == nil {
		end = failed
	}
	return set.Finish(end, func() error { return c.print(stdout, n.summary(), true) })
}
