package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tailConfig is what the flags say.
type tailConfig struct {
	connect.Options
	read     tail.Options
	filter   filter
	output   cli.Output
	n        uint64
	duration time.Duration
}

func tailCommand() *cobra.Command {
	var c tailConfig
	cmd := &cobra.Command{
		Use:   "tail [flags]",
		Short: "Print the events of all hosts in order of time",
		Long: `Print the events of all hosts in order of wall-clock time, and where events are missing.

An event is printed once every live host has sent all older ones, usually within a second. Ctrl-C
ends with a summary: from when to when all is known of each host. If events are missing, or may be,
the exit status is 3.`,
		Example: `  ringfold fleet tail
  ringfold fleet tail --since 10m --host web-1,web-2 --event exec
  ringfold fleet tail --all --once --json | jq -r 'select(.event == "gap") | [.host, .reason, .missing] | @tsv'`,
		Args: cli.Args(cobra.NoArgs),
	}
	f := cmd.Flags()
	cli.Group(f, "Events", func(f *pflag.FlagSet) {
		f.StringVar(&c.read.Stream, "stream", "EVENTS", "`name` of the JetStream stream")
		f.Func("since", "begin at `time`: 10m ago, or 2026-01-02T15:04:05Z (default: now)", func(s string) (err error) {
			c.read.Since, err = parseSince(s, time.Now())
			return err
		})
		f.BoolVar(&c.read.All, "all", false, "begin with the oldest event of the stream")
		f.BoolVar(&c.read.Once, "once", false, "end when everything stored is read")
		list(f, "host", "only these `hosts`, separated by commas", &c.read.Only)
		list(f, "event", "only these `events`: fork, exec, exit; gaps are always printed", &c.filter.events)
		list(f, "comm", "only processes of these `names`", &c.filter.comms)
		f.Uint64VarP(&c.n, "count", "n", 0, "end after `N` events")
		f.DurationVar(&c.duration, "timeout", 0, "end after this `duration`, such as 5s")
	})
	cli.Group(f, "Order", func(f *pflag.FlagSet) {
		list(f, "hosts", "wait for these `hosts` from the start, for others when they are first heard of", &c.read.Hosts)
		f.DurationVar(&c.read.Dead, "dead", tail.DefaultDead, "do not wait for a host that has been silent for this `duration`")
		f.IntVar(&c.read.Buffer, "buffer", tail.DefaultBuffer, "hold back `N` events at most; those beyond are printed without waiting, and counted as forced")
	})
	c.Options.Flags(f)
	cli.Group(f, "Output", c.output.Flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := c.check(); err != nil {
			return err
		}
		return c.run(cmd.Context(), cmd.OutOrStdout(), notes(cmd))
	}
	return cmd
}

func (c *tailConfig) check() error {
	for _, name := range c.filter.events {
		if !slices.Contains(eventNames, name) {
			return cli.Usagef("--event %s: there are fork, exec and exit", name)
		}
	}
	switch {
	case c.read.All && !c.read.Since.IsZero():
		return cli.Usagef("--all and --since exclude each other")
	case c.read.Once && !c.read.All && c.read.Since.IsZero():
		return cli.Usagef("--once needs --all or --since: nothing that comes from now on has been stored already")
	case c.read.Dead <= 0 || c.read.Buffer <= 0 || c.duration < 0:
		return cli.Usagef("--dead and --buffer must be positive, --timeout not negative")
	}
	if len(c.read.Only) > 0 && len(c.read.Hosts) == 0 {
		c.read.Hosts = c.read.Only
	}
	c.read.Settle = settle
	return nil
}

// settle is how long a tail listens for live hosts before it prints: idle ones send a batch each
// second.
const settle = 1500 * time.Millisecond

// list makes a flag that has a list.
func list(f *pflag.FlagSet, name, usage string, to *[]string) {
	f.Func(name, usage, func(s string) error {
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); one == "" {
				return errors.New("names, separated by commas")
			}
			*to = append(*to, one)
		}
		return nil
	})
}

func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d < 0 {
			return time.Time{}, errors.New("10m is 10 minutes ago: without a sign")
		}
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New("a time ago, such as 10m, or a time, such as 2026-01-02T15:04:05Z")
	}
	return t, nil
}

func (c tailConfig) run(ctx context.Context, out io.Writer, note func(string)) error {
	c.Note, c.read.Note = note, note
	nc, err := c.Connect("fleet tail")
	if err != nil {
		return err
	}
	defer nc.Close()
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	p := newPrinter(out, c)
	result, err := tail.Run(ctx, nc, c.read, p)
	if err != nil {
		return err
	}
	if err := p.end(result); err != nil || len(p.unknown) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", cli.ErrIncomplete, strings.Join(p.unknown, "; "))
}
