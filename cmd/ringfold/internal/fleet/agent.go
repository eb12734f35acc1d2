package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/agent"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/connect"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/source"
)

const agentUsage = `Usage: fleet agent [flags]

Reads this host's process events (fork, exec, exit) and publishes them. What the broker does not have yet is kept in a spool on disk:
reading goes on while the broker is away. It needs root, or CAP_BPF and CAP_PERFMON. Ctrl-C ends it.

  -host NAME      of this host, which no other may have (default: the system's)
  -spool FILE     (default /var/lib/fleet/spool.db)
  -spool-bytes N  what it may hold (default 268435456): events beyond are lost, which is published as a gap
  -simulate       events are made up: for a try
  -rate N         of these, per second (default 50)
  -version        print which ringfold and which libbpf this is

` + streamUsage + "\n" + connect.Usage

// agentConfig is what the flags say.
type agentConfig struct {
	connect.Options
	stream     streamConfig
	host       string
	spool      string
	spoolBytes int64
	simulate   bool
	rate       float64
}

func (c *agentConfig) parse(args []string, out io.Writer) (done bool, err error) {
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	c.Options.Flags(f)
	c.stream.flags(f)
	f.StringVar(&c.host, "host", "", "")
	f.StringVar(&c.spool, "spool", "/var/lib/fleet/spool.db", "")
	f.Int64Var(&c.spoolBytes, "spool-bytes", 256<<20, "")
	f.BoolVar(&c.simulate, "simulate", false, "")
	f.Float64Var(&c.rate, "rate", 50, "")
	if done, err := parse(f, args, out, agentUsage); done || err != nil {
		return done, err
	}
	if c.spoolBytes <= 0 || c.rate <= 0 {
		return false, wrong("-spool-bytes and -rate must be positive")
	}
	if c.host == "" {
		if c.host, err = os.Hostname(); err != nil {
			return false, fmt.Errorf("%w: name this host by -host", err)
		}
	}
	return false, c.stream.check()
}

func runAgent(ctx context.Context, args []string, out io.Writer, note func(string)) error {
	var c agentConfig
	if done, err := c.parse(args, out); done || err != nil {
		return err
	}
	var src source.Source = new(source.Real)
	if c.simulate {
		src = source.NewSimulated(source.SimulatedOptions{Rate: c.rate})
	}
	if err := os.MkdirAll(filepath.Dir(c.spool), 0o700); err != nil {
		return fmt.Errorf("%w: -spool says where else the spool may be", err)
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
		Host: c.host, Source: src, Conn: nc, Prefix: c.stream.name, SpoolPath: c.spool, SpoolBytes: c.spoolBytes, Note: note})
	cause := context.Cause(ctx)
	stop(nil)
	making.Wait()
	if !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	fmt.Fprintln(out, agentSummary(stats))
	return err
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
