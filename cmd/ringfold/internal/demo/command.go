// Package demo shows what order is worth: the life of processes on all CPUs, read ring by ring and in order.
//
// The kernel writes events into one ring per CPU. Read one ring after the other, events of different CPUs come out in the wrong
// order: a child runs a program before its parent forks it. A perfbuf.Stream puts them in order, by the kernel's times.
package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
)

// config is what the flags say.
type config struct {
	cli.Output
	all      bool
	svg      string
	simulate bool
	overload bool
	seed     uint64
	count    uint64
	duration time.Duration
	mode     string
	slack    time.Duration // in slack mode
	ringSize cli.Size
}

// Values of config.mode.
const (
	exact = "exact"
	slack = "slack"
)

// order is the mode as the library has it.
func (c config) order() perfbuf.Order {
	if c.mode == slack {
		return perfbuf.Slack(c.slack)
	}
	return perfbuf.Order{}
}

// Command is "ringfold demo".
func Command() *cobra.Command {
	c := config{mode: exact, ringSize: 512 << 10}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the same events read ring by ring and in order",
		Long: `Start short-lived processes on all CPUs and follow their forks, execs and exits. Show how many of
these events come out of order when they are read ring by ring, and the same events in order.

It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF. Where BPF is not permitted, it
follows made-up processes on a simulated kernel, and says so. It exits with 1 if an event comes out
of order without being marked as late.

With --overload it floods the rings with more events than it can handle, without lanes and with them,
and shows what became of those that must not be lost.`,
		Example: `  ringfold demo                      # the picture, in 3 seconds
  ringfold demo --all --timeout 10s  # every event, as it comes
  ringfold demo --overload           # what must not be lost is not
  ringfold demo --json | jq .event   # an object per event, the summary last`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(cmd); err != nil {
				return err
			}
			return run(cmd, c)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Uint64VarP(&c.count, "count", "n", 0, "end after `N` events")
	f.DurationVar(&c.duration, "timeout", 3*time.Second, "end after this `duration`; 0 waits for Ctrl-C")
	f.Var(cli.Choice(&c.mode, exact, slack), "mode", "`exact|slack`: wait for proof that no older event can come, or a fixed time")
	f.DurationVar(&c.slack, "slack", time.Millisecond, "how long --mode slack waits; implies that mode")
	f.Var(&c.ringSize, "ring-size", "`size` of each CPU's ring")
	c.Output.Flags(f)
	f.BoolVar(&c.all, "all", false, "print all events")
	f.StringVar(&c.svg, "svg", "", "also write the picture to this `file`")
	f.BoolVar(&c.overload, "overload", false, "flood the rings, and lose no important event")
	f.BoolVar(&c.simulate, "simulate", false, "follow made-up processes on a simulated kernel, without any privilege")
	f.Uint64Var(&c.seed, "seed", 1, "with --simulate: another `number` makes up other processes")
	return cmd
}

// check refuses what makes no sense.
func (c *config) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case c.duration < 0 || c.slack < 0:
		return cli.Usagef("--timeout and --slack must not be negative")
	case c.mode == exact && given("mode") && given("slack"):
		return cli.Usagef("--slack is for --mode slack: exact mode does not guess")
	case given("seed") && !c.simulate:
		return cli.Usagef("--seed is for --simulate")
	}
	if c.overload {
		for _, name := range []string{"all", "count", "mode", "seed", "simulate", "slack", "svg"} {
			if given(name) {
				return cli.Usagef("--%s is not for --overload", name)
			}
		}
		if c.duration == 0 {
			return cli.Usagef("--overload ends: give --timeout")
		}
	}
	if given("slack") {
		c.mode = slack
	}
	return nil
}

// run follows real processes, or else simulated ones.
func run(cmd *cobra.Command, c config) error {
	if c.overload {
		return overload(cmd.Context(), c, cmd.OutOrStdout())
	}
	src, reader, err := c.open()
	if !c.simulate && errors.Is(err, fs.ErrPermission) {
		why, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: this is a simulation, as BPF is not permitted here: %s. See ringfold doctor\n", cmd.CommandPath(), why)
		c.simulate = true
		src, reader, err = c.open()
	}
	if err != nil {
		return err
	}
	sum, err := follow(cmd.Context(), c, src, reader, cmd.OutOrStdout())
	if err != nil || c.svg == "" {
		return err
	}
	return os.WriteFile(c.svg, picture(sum), 0o644)
}

// source is where events come from: a lifecycle.Probe or a lifecycle.Simulation.
type source interface {
	Open(perfbuf.Options) (*perfbuf.Reader, error)
	Attach() error
	Detach() error
	Close()
}

// open sets up rings. No event comes before src.Attach: events without a ring would be gone without a trace.
func (c *config) open() (src source, reader *perfbuf.Reader, err error) {
	if c.simulate {
		src = lifecycle.NewSimulation(lifecycle.SimulationOptions{CPUs: 4, Seed: c.seed, Rate: 400})
	} else if src, err = lifecycle.Load(); err != nil {
		return nil, nil, err
	}
	if reader, err = src.Open(perfbuf.Options{RingBytes: int(c.ringSize)}); err != nil {
		src.Close()
	}
	return src, reader, err
}
