package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/agent"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// agentConfig is what the flags say.
type agentConfig struct {
	connect.Options
	stream     streamConfig
	host       string
	spool      string
	spoolBytes cli.Size
	simulate   bool
	rate       float64
}

func agentCommand() *cobra.Command {
	c := agentConfig{spoolBytes: 256 << 20}
	cmd := &cobra.Command{
		Use:   "agent [flags]",
		Short: "Publish this host's process events",
		Long: `Read this host's process events (fork, exec, exit) and publish them.

A spool on disk holds what the NATS server has not stored yet, so reading goes on while the server is
away. It needs root, or CAP_BPF and CAP_PERFMON. Ctrl-C ends it.`,
		Example: `  sudo ringfold fleet agent --url nats://broker:4222
  sudo ringfold fleet agent --host web-1 --spool /var/spool/ringfold-spool.db --spool-bytes 1GiB
  ringfold fleet agent --simulate --rate 200 --spool /tmp/ringfold-spool.db`,
		Args: cli.Args(cobra.NoArgs),
	}
	f := cmd.Flags()
	cli.Group(f, "Host", func(f *pflag.FlagSet) {
		f.StringVar(&c.host, "host", "", "`name` of this host, which no other may have (default: the system's)")
		f.StringVar(&c.spool, "spool", "/var/lib/ringfold/ringfold-spool.db", "`file` of the spool")
		f.Var(&c.spoolBytes, "spool-bytes", "how much the spool holds; beyond this `size` events are lost, and published as a gap")
		f.BoolVar(&c.simulate, "simulate", false, "make up events, to try it out")
		f.Float64Var(&c.rate, "rate", 50, "how many made-up events per second")
	})
	c.stream.flags(f)
	c.Options.Flags(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := c.check(); err != nil {
			return err
		}
		return c.run(cmd.Context(), cmd.OutOrStdout(), notes(cmd))
	}
	return cmd
}

func (c *agentConfig) check() (err error) {
	if c.spoolBytes == 0 || c.rate <= 0 {
		return cli.Usagef("--spool-bytes and --rate must be positive")
	}
	if c.host == "" {
		if c.host, err = os.Hostname(); err != nil {
			return fmt.Errorf("%w: name this host by --host", err)
		}
	}
	return c.stream.check()
}

func (c agentConfig) run(ctx context.Context, out io.Writer, note func(string)) error {
	src, err := c.source() // before it makes a spool, or tries servers for ever
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.spool), 0o700); err != nil {
		return fmt.Errorf("%w: --spool says where else the spool may be", err)
	}
	c.Note = note
	nc, err := c.Connect("fleet agent " + c.host)
	if err != nil {
		return err
	}
	defer nc.Close()

	// The agent reads and spools, whatever becomes of the stream.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var making sync.WaitGroup
	making.Go(func() {
		if err := c.stream.ensure(ctx, nc, note); err != nil && ctx.Err() == nil {
			stop(err)
		}
	})
	stats, err := agent.Run(ctx, agent.Options{
		Host: c.host, Source: src, Conn: nc, Prefix: c.stream.name, SpoolPath: c.spool, SpoolBytes: int64(c.spoolBytes), Note: note})
	cause := context.Cause(ctx)
	stop(nil)
	making.Wait()
	if !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	fmt.Fprintln(out, agentSummary(stats))
	return err
}

func (c agentConfig) source() (agent.Source, error) {
	if c.simulate {
		return lifecycle.NewSimulation(lifecycle.SimulationOptions{Rate: c.rate}), nil
	}
	return thisHost()
}

// thisHost returns this host's events, or says why they cannot be read.
func thisHost() (agent.Source, error) {
	probe, err := lifecycle.Load()
	if err != nil {
		return nil, err
	}
	reader, err := probe.Open(perfbuf.Options{}) // it may take more than loading does
	if err != nil {
		probe.Close()
		return nil, err
	}
	return probe, reader.Close()
}

// agentSummary says what an agent has done.
func agentSummary(s agent.Stats) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events read; %d batches, of which %d were published (%d once more) and %d acknowledged; %d bytes left in the spool",
		s.Events, s.Batches, s.Published, s.Retried, s.Acknowledged, s.SpoolBytes)
	for _, reason := range slices.Sorted(maps.Keys(s.Lost)) {
		fmt.Fprintf(&b, "; lost by %s: %d", reason, s.Lost[reason])
	}
	return b.String()
}
