// Package trace is the command trace: it records for some seconds what all CPUs do, or the events of maps and recordings, in order of
// time, as a file for the Perfetto UI and chrome://tracing.
//
// own.go reads the command's own programs, of which event.go decodes the events; others.go shows the events of other programs, and
// read.go reads either. timeline.go makes slices and marks of them, which trace.go writes to the file of output.go.
package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config is what the flags say.
type config struct {
	source.Flags
	cli.Output
	write  string
	record string // a recording to make
}

// Command is "ringfold trace".
func Command() *cobra.Command {
	c := &config{}
	c.RingSize, c.Timeout = 4<<20, 5*time.Second
	cmd := &cobra.Command{
		Use:   "trace " + source.Usage,
		Short: "Draw what all CPUs do as a timeline for the Perfetto UI",
		Long: `Record which threads run on each CPU, the processes that start, run programs and end, and how full
the rings are, into a file that https://ui.perfetto.dev and chrome://tracing open. It needs root, or
CAP_BPF and CAP_PERFMON, and a kernel with BTF.

With maps or recordings, named as for "ringfold tail", show their events instead, each on the track
of its CPU. A recording that trace has made becomes the same timeline again, without root. Ctrl-C
ends early, with a complete file.`,
		Example: `  ringfold trace --timeout 2s
  ringfold trace -w build.json.gz -- make
  ringfold trace name events --type event
  ringfold trace events.data -w events.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := c.Flags.Args(cmd, args); err != nil {
				return err
			}
			if err := c.check(cmd.Flags().Changed); err != nil {
				return cli.Usagef("%w", err)
			}
			return nil
		},
		RunE: c.run,
	}
	f := cmd.Flags()
	c.Which(f)
	c.What(f)
	f.Lookup("timeout").Usage = "end after this `duration`; 0 waits for Ctrl-C. A command or a recording ends by itself"
	c.Order(f)
	c.Types(f)
	cli.Group(f, "Output", func(f *pflag.FlagSet) {
		f.StringVarP(&c.write, "write", "w", "trace.json", "write to this `file`, compressed if it ends in .gz; - is stdout")
		f.StringVar(&c.record, "record", "", "also record the events to this perf.data `file`")
		c.Output.Flags(f)
	})
	c.Complete(cmd)
	return cmd
}

// check looks for flags that contradict each other.
func (c *config) check(given func(string) bool) error {
	if (len(c.Files) > 0 || len(c.Command) > 0) && !given("timeout") {
		c.Timeout = 0
	}
	switch {
	case c.write == "":
		return errors.New("--write: name a file")
	case c.write == "-" && c.Format == cli.JSON:
		return errors.New("--json prints where --write - writes to: name a file")
	case c.record != "" && c.Named():
		return errors.New("--record is for the events of trace itself: ringfold record records those of maps")
	case c.Named():
		return nil
	}
	for _, flag := range []string{"pid", "filter", "count", "since", "steal", "mode", "slack"} {
		if given(flag) {
			return fmt.Errorf("--%s is for maps and recordings: name one", flag)
		}
	}
	return nil
}

// run makes the trace. Of a recording that was cut, it shows what is there.
func (c *config) run(cmd *cobra.Command, _ []string) error {
	c.Writes = []string{c.write}
	if c.record != "" {
		c.Writes = append(c.Writes, c.record)
	}
	read := c.own
	if c.Named() {
		read = c.others
	}
	sum, err := read(cmd.Context(), cmd.OutOrStdout())
	var failed error
	switch {
	case err != nil && !source.Incomplete(err):
	case c.Format == cli.JSON:
		failed = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"summary": sum})
	case c.write == "-":
		cmd.PrintErrln(sum)
	default:
		_, failed = fmt.Fprintln(cmd.OutOrStdout(), sum)
	}
	return errors.Join(err, failed)
}

// summary is what was recorded.
type summary struct {
	File      string          `json:"file"`
	Seconds   float64         `json:"seconds"`
	CPUs      int             `json:"cpus"`
	Slices    uint64          `json:"slices"`
	Forks     uint64          `json:"forks"`
	Execs     uint64          `json:"execs"`
	Exits     uint64          `json:"exits"`
	Events    uint64          `json:"events"` // of others' maps
	Lost      uint64          `json:"lost"`
	Shed      uint64          `json:"shed"`
	Unseen    uint64          `json:"unseen"`     // switches that others tell of
	HighWater float64         `json:"high_water"` // share of the fullest ring that was used at most
	Command   *source.Command `json:"command,omitempty"`
}

func (s summary) String() string {
	text := fmt.Sprintf("%s: %.1f s of %d CPUs: ", s.File, s.Seconds, s.CPUs)
	if s.Slices+s.Execs+s.Forks+s.Exits > 0 || s.Events == 0 {
		text += fmt.Sprintf("%d slices, %d forks, %d execs, %d exits; ", s.Slices, s.Forks, s.Execs, s.Exits)
	} else {
		text += fmt.Sprintf("%d events; ", s.Events)
	}
	text += fmt.Sprintf("%d events lost", s.Lost)
	if s.Shed > 0 {
		text += fmt.Sprintf(", %d shed", s.Shed)
	}
	if s.HighWater > 0 { // a recording has no rings
		text += fmt.Sprintf("; rings up to %.0f %% full", 100*s.HighWater)
	}
	text += "\n"
	if s.Lost > 0 && s.HighWater > 0 {
		text += "With larger rings (--ring-size) fewer are lost.\n"
	}
	if s.Command != nil {
		text += s.Command.Args[0] + ": " + s.Command.Status + "\n"
	}
	return text + "Open it in https://ui.perfetto.dev, or in Chrome's chrome://tracing."
}
