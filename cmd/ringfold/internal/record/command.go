// Package record is the command record: it writes events to perf.data files, or what a flight recorder has kept of them.
//
// command.go has the flags, record.go records, flight.go and trigger.go keep the newest events until a trigger, summary.go says what
// was recorded.
package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/otlp"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config is what the flags say.
type config struct {
	source.Flags
	cli.Output
	write     string
	maxSize   cli.Size
	maxAge    time.Duration
	maxFiles  int
	compress  bool
	sink      *fleet.Address // where to publish, instead of a file
	collector *otlp.Target   // where to send log records, instead

	flight      time.Duration
	after       time.Duration
	snapshotDir string
}

// Command is "ringfold record".
func Command() *cobra.Command {
	c := &config{}
	cmd := &cobra.Command{
		Use:   "record " + source.Usage,
		Short: "Record events to a file, a collector or a fleet's stream, or keep the newest ones until a trigger",
		Long: `Record the events of maps to a perf.data file, which ringfold tail, ringfold replay and perf script
read. Given recordings, copy the events that match. Name maps as for "ringfold tail".

With --write otlp://HOST:PORT, they go to an OpenTelemetry collector instead, as log records: with
the fields of --type as the body, and losses as records of their own. otlps:// is with TLS;
?service=NAME, ?header=NAME=VALUE and ?tlsca=FILE may follow. While the collector is away, record
waits.

With --write nats://SERVER/STREAM, they are published over NATS JetStream as this host's recording,
without a map process events: ?host=NAME, ?spool=FILE, ?spool-size=SIZE, ?max-age=DURATION and more
may follow. "ringfold tail nats://SERVER/STREAM" shows those of all hosts.

With --flight, the kernel keeps the newest events of one map in memory, and nothing reads them. A
trigger writes a snapshot: SIGUSR1, an event that matches --trigger, or the end. The first snapshot
ends the command, unless --snapshot-dir is given.`,
		Example: `  ringfold record name events -w events.data --timeout 10s
  ringfold record --process execsnoop --steal --type event --max-size 100MiB --max-files 5 -- make
  ringfold record name events --steal --type event -w otlp://collector:4317 -n 3
  ringfold record -w nats://broker:4222/EVENTS --timeout 2s
  ringfold record name events --flight 10s --type event --trigger 'ret < 0' --snapshot-dir /var/tmp`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := c.Flags.Args(cmd, args); err != nil {
				return err
			}
			if err := c.check(cmd.Flags().Changed); err != nil {
				return cli.Usagef("%w", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.write == "-" && cli.Terminal(cmd.OutOrStdout()) != nil {
				return cli.Usagef("--write -: stdout is a terminal, which a recording is not for: pipe it, or name a file")
			}
			switch {
			case c.flight > 0:
				return c.fly(cmd)
			case c.sink != nil:
				return c.publish(cmd)
			case c.collector != nil:
				return c.export(cmd)
			}
			return c.record(cmd)
		},
	}
	f := cmd.Flags()
	c.Which(f)
	c.What(f)
	c.Order(f)
	c.Types(f)
	cli.Group(f, "Flight recorder", func(f *pflag.FlagSet) {
		f.DurationVar(&c.flight, "flight", 0, "keep the events of the last `duration`, and write them when triggered")
		f.StringVar(&c.Trigger, "trigger", "", "trigger at an event that matches, such as `'ret < 0'`; written like --filter")
		f.DurationVar(&c.after, "after", 0, "wait for this `duration` after a trigger, then take the snapshot")
		f.StringVar(&c.snapshotDir, "snapshot-dir", "", "write each snapshot to a file of its own in this `directory`, and go on")
	})
	cli.Group(f, "Output", func(f *pflag.FlagSet) {
		f.StringVarP(&c.write, "write", "w", "ringfold.data", "record to this `file`, or otlp:// address; - is stdout, for perf script -i -")
		f.Var(&c.maxSize, "max-size", "begin a new file, named as in ringfold.000001.data, before one exceeds this `size`")
		f.DurationVar(&c.maxAge, "max-age", 0, "begin a new file when one is older than this `duration`")
		f.IntVar(&c.maxFiles, "max-files", 0, "keep the newest `N` of these files, or of the snapshots")
		f.BoolVarP(&c.compress, "compress", "z", false, "compress with zstd, as perf record -z does: smaller files, several times the CPU time")
		c.Output.Flags(f)
	})
	c.Complete(cmd)
	return cmd
}

// rotates reports whether a series of files is written.
func (c *config) rotates() bool { return c.maxSize > 0 || c.maxAge > 0 }

// check looks for flags that contradict each other.
func (c *config) check(given func(string) bool) error {
	rotates := c.rotates()
	switch {
	case fleet.Is(c.write):
		a, err := fleet.Parse(c.write, true)
		if err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		c.sink = &a
	case otlp.Is(c.write):
		if err := c.exports(); err != nil {
			return err
		}
	}
	switch {
	case c.sink != nil && (rotates || c.compress || c.Mode != "" && c.Mode != source.Exact || len(c.Files) > 0 || c.Fleet != nil):
		return errors.New("--max-size, --max-age, --compress, --mode slack, --mode unordered and recordings are not for a stream: its hosts publish what happens now, in exact order")
	case c.maxAge < 0 || c.maxFiles < 0 || c.flight < 0 || c.after < 0:
		return errors.New("--max-age, --max-files, --flight and --after must not be negative")
	case c.maxSize > 0 && c.maxSize < 1<<20:
		return errors.New("--max-size must be 1MiB at least")
	case c.write == "":
		return errors.New("--write: name a file")
	case c.write == "-" && (rotates || c.Format == cli.JSON):
		return errors.New("--max-size, --max-age and --json need a file: name one by --write")
	case c.flight == 0 && (c.Trigger != "" || given("after") || c.snapshotDir != ""):
		return errors.New("--trigger, --after and --snapshot-dir are for --flight")
	case c.flight == 0 && c.maxFiles > 0 && !rotates, c.flight > 0 && c.maxFiles > 0 && c.snapshotDir == "":
		return errors.New("--max-files is for --max-size, --max-age or --snapshot-dir: else there is one file")
	case c.flight == 0:
		return nil
	case len(c.Files) > 0:
		return errors.New("--flight is for a map: of a recording, --since has the last events")
	case rotates || given("mode") || given("slack"):
		return errors.New("--max-size, --max-age, --mode and --slack are not for --flight")
	case c.snapshotDir != "" && given("write"):
		return errors.New("--write and --snapshot-dir each say where snapshots go: give one of them")
	}
	return nil
}
