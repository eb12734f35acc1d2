// Package tail prints events of maps and recordings: the commands tail and replay.
//
// command.go has their flags, tail.go reads, text.go, compact.go, hexdump.go and json.go print, summary.go says what was read.
package tail

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config is what the flags say.
type config struct {
	source.Flags
	cli.Output
	fields []string // none: all
	utc    bool
	quiet  bool
	each   func(source.Event) // nil: nobody wants them but the printer
	delay  quantile.Histogram // of a fleet's events that have happened meanwhile, ns
}

// Command is "ringfold tail".
func Command() *cobra.Command {
	c := &config{}
	cmd := &cobra.Command{
		Use:   "tail " + source.Usage,
		Short: "Print events of maps or of recordings, in order",
		Long: `Print the events of perf event arrays and BPF ring buffers, or of recordings, in order of time.

Name one map or several as bpftool does: "id 12", "name events", "pinned PATH". Without a name, tail
reads the only map that programs use. A word with a slash, or one that ends in .data, is a
recording, which needs no root.

Options of a map follow its name, each after a comma. time=OFFSET and cpu=OFFSET say at which byte
payloads have a time and a CPU. type=NAME is --type for this map. lanes=ID:PERCENT:... is the map of
lanes of programs that use bpf/perfbuf_lanes.h, and the lanes' shares of a ring. stamped is for ring
buffers of programs that use bpf/perfbuf_ringbuf.h.

nats://SERVER/STREAM is what the hosts of a fleet publish: ?since=10m, ?hosts=A,B and more may
follow. The exit status is 3 if events of them may be missing.

A perf event array has room for one reader. If a map may have one, tail refuses. With --steal it
takes the map over, and the other reader receives nothing until it is restarted. Ctrl-C ends with a
summary: BYTES is what the records took in the rings, FULL how full each ring was at most (- for a
recording, which has no rings).`,
		Example: `  ringfold tail --process execsnoop --steal --type event
  ringfold tail name events,type=event name rb,type=record,time=0 --filter 'pid == 12 && ret < 0'
  ringfold tail events.*.data
  ringfold tail 'nats://broker:4222/EVENTS?since=10m' --timeout 5s
  ringfold tail events.data -o json | jq -c '[.timestamp, .cpu]'`,
		Args: c.Args,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), cmd) },
	}
	fs := cmd.Flags()
	c.Which(fs)
	c.What(fs)
	c.Order(fs)
	c.show(fs)
	c.Complete(cmd)
	return cmd
}

// Replay is "ringfold replay".
func Replay() *cobra.Command {
	c := &config{}
	speed := speed(1)
	cmd := &cobra.Command{
		Use:   "replay [flags] FILE...",
		Short: "Print recordings at their recorded pace",
		Long: `Print the events of recordings at their recorded pace, or faster. The output is that of tail.

A recording is a perf.data file of "ringfold record", of package perfbuf/perfdata, or of perf record -e bpf-output. No
root is needed. Ctrl-C ends with a summary.`,
		Example: `  ringfold replay events.data
  ringfold replay events.data --speed 10 --since 30s
  ringfold replay events.data --speed max -o json`,
		ValidArgsFunction: cli.CompleteFiles,
		Args: func(cmd *cobra.Command, args []string) error {
			var files []string
			for _, arg := range args {
				switch {
				case fleet.Is(arg):
					files = append(files, arg)
				case arg != "file":
					files = append(files, "file", arg)
				}
			}
			if files == nil {
				return cli.Usagef("name a recording")
			}
			return c.Args(cmd, files)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Speed = float64(speed)
			return c.run(cmd.Context(), cmd)
		},
	}
	fs := cmd.Flags()
	cli.Group(fs, "Recording", func(fs *pflag.FlagSet) {
		fs.Var(&speed, "speed", "`factor` of the recorded pace, such as 10; max is as fast as possible")
		c.Recording(fs)
	})
	c.What(fs)
	c.Order(fs)
	c.show(fs)
	c.Complete(cmd)
	return cmd
}

// show defines the flags that say how events are shown.
func (c *config) show(fs *pflag.FlagSet) {
	c.Types(fs)
	cli.Group(fs, "Output", func(fs *pflag.FlagSet) {
		c.Output.Flags(fs)
		fs.StringSliceVar(&c.fields, "fields", nil, "show only the decoded fields with these `names`, separated by commas")
		fs.BoolVar(&c.utc, "utc", false, "show the time of day, in UTC, not seconds since the first event")
		fs.BoolVarP(&c.quiet, "quiet", "q", false, "print no events, only the summary")
	})
}

// check looks for flags that contradict each other.
func (c *config) check() error {
	switch {
	case len(c.Files) > 0 && c.utc: // a fleet's is known
		return cli.Usagef("--utc is for maps: the clock of a recording may be another machine's")
	case len(c.fields) > 0 && !c.Decodes() && c.Fleet == nil:
		return cli.Usagef("--fields chooses among decoded fields: say what events are by --type")
	}
	return nil
}

// speed is a flag: 0 is as fast as possible.
type speed float64

func (s *speed) Set(text string) error {
	if text == "max" {
		*s = 0
		return nil
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(f >= 0.001 && f <= 1e6) {
		return errors.New("a speed is a number such as 0.5 or 10, or max")
	}
	*s = speed(f)
	return nil
}

func (s *speed) String() string {
	if *s == 0 {
		return "max"
	}
	return fmt.Sprint(float64(*s))
}

// Type is for the usage text.
func (*speed) Type() string { return "factor" }
