// Package top shows the rings of perf event arrays and BPF ring buffers at work: how full each is, which events come and are lost, and
// how the reader keeps up. It looks at maps, at recordings, or at a load of its own.
//
// session.go opens and reads, in the mode that is chosen, and takes snapshots; frame.go makes a frame of two of these, which is a line
// of JSON. view.go, totals.go, table.go and bar.go draw it, for plain.go and for screen.go, which alone knows the terminal. load.go and
// load.bpf.c make the load.
package top

import (
	"context"
	"errors"
	"io"
	"os"
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
	load     int
	interval time.Duration
}

// Command is "ringfold top".
func Command() *cobra.Command {
	c := &config{Flags: source.Flags{Speed: 1}}
	cmd := &cobra.Command{
		Use:   "top " + source.MapsUsage,
		Short: "Show live how full each CPU's ring is, event rates and losses",
		Long: `Show the ring of each CPU of a map, live: how full it is, how many events come and are lost, and how
the reader keeps up.

Name maps or recordings as for "ringfold tail"; recordings are replayed at their own pace, and have no
rings to be full (-). Without a name and without --steal, top shows a BPF program of its own that
outputs on all CPUs. If stdout is no terminal, or one that cannot move its cursor (TERM=dumb), top
prints a table per interval.

top reads the events of the maps, and discards them. Another reader of a perf event array receives
nothing from then on, until it is restarted, so top refuses such a map without --steal.

Keys: p pauses and resumes, m changes the mode, s sorts by CPU or by fullness, arrows scroll,
q quits, Ctrl-Z stops top until fg: meanwhile, nothing reads the map.`,
		Example: `  ringfold top --mode exact --load 100000
  ringfold top name events --steal
  ringfold top --json --timeout 10s | jq -c '[.events_per_second, .lost_per_second]'`,
		Args: c.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return c.watch(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	c.Which(fs)
	cli.Group(fs, "Maps and recordings", func(fs *pflag.FlagSet) {
		fs.IntVar(&c.load, "load", 50000, "without a map: `events` per second and CPU, on average; 0 is none")
	})
	c.Limits(fs)
	c.Order(fs)
	fs.Lookup("mode").Usage = "`exact|slack|unordered`: as elsewhere, or ring by ring (default)"
	cli.Group(fs, "Output", func(fs *pflag.FlagSet) {
		fs.DurationVarP(&c.interval, "interval", "i", time.Second, "time between two looks")
		c.Output.Flags(fs)
	})
	c.Complete(cmd)
	return cmd
}

// own says that the map is the load's.
func (c *config) own() bool { return !c.Named() && !c.Steal }

// check looks for flags that contradict each other, and completes them.
func (c *config) check(given func(string) bool) error {
	switch {
	case c.interval < 10*time.Millisecond:
		return cli.Usagef("--interval %v is too short: 10ms at least", c.interval)
	case c.load < 0:
		return cli.Usagef("--load must not be negative")
	case given("load") && !c.own():
		return cli.Usagef("--load is for a map of its own: name none, and leave out --steal")
	case len(c.Flags.Command) > 0:
		return cli.Usagef("top has the terminal, and runs no command: see ringfold stat")
	}
	if c.Mode == "" {
		c.Mode = source.Unordered
		if len(c.Files) > 1 { // they are replayed by one clock, in an ordered stream
			c.Mode = source.Exact
		}
	}
	if c.own() && !given("ring-size") {
		c.RingSize = 64 << 10 // small enough to show something
	}
	return nil
}

// watch shows the rings until ctx ends, or the user wants no more.
func (c *config) watch(ctx context.Context, stdout io.Writer) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	defer s.Close()
	healthy, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	shown := healthy
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		shown, cancel = context.WithTimeout(healthy, c.Timeout)
		defer cancel()
	}
	out := printer{stdout, c.Format, s.name}
	terminal := c.Format == cli.Text && cli.Terminal(stdout) != nil
	if term := os.Getenv("TERM"); terminal && (term == "" || term == "dumb") {
		s.set.Note("TERM=%s cannot show a live view: a table per --interval follows; -o compact prints a line", term)
		terminal = false
	}
	reading, stop := context.WithCancel(context.Background()) // beyond the end of ctx: until there are no more outputs
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.run(reading); err == io.EOF && terminal {
			s.note("the recording has ended") // and can be looked at
		} else {
			fail(err)
		}
	}()
	if s.load != nil {
		if err := s.load.start(c.load, fail); err != nil {
			return err
		}
	}
	if terminal {
		err = newScreen(s, c.interval).show(shown)
	} else {
		err = c.print(shown, s, out)
	}
	if s.load != nil {
		s.load.end()
	}
	if cause := context.Cause(healthy); err == nil && ctx.Err() == nil && cause != io.EOF {
		err = cause // what reading, or the load, failed with
	}
	stop()
	<-ended
	last, failed := s.finish()
	if err = errors.Join(err, failed); errors.Is(err, perfbuf.ErrDisplaced) {
		err = s.set.DisplacedError()
	}
	if err != nil && !source.Incomplete(err) {
		return err
	}
	return errors.Join(err, out.final(newFrame(s.began, snapshot{at: s.began}, last)))
}

// print prints what s reads until ctx ends.
func (c *config) print(ctx context.Context, s *session, out printer) error {
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for before := s.snapshot(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := s.snapshot()
		if err := out.frame(newFrame(s.began, before, now)); err != nil {
			return err
		}
		before = now
	}
}
