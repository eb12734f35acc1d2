// Trace2perfetto records for some seconds what all CPUs do, in the order in which it happened, as a file for the Perfetto UI and
// chrome://tracing.
//
// record.go reads the events, file.go those of a recording, event.go decodes them, timeline.go makes slices and instants of them, trace.go writes these.
package trace

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

const usage = `Usage: trace2perfetto [flags]

Records which threads run on each CPU, the processes that start, run programs and end, and how full the rings are,
into a file that https://ui.perfetto.dev and chrome://tracing open. It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with
BTF. Ctrl-C ends it early, and the file is complete.

  -o FILE         where to (default trace.json); compressed if it ends in .gz; - is the standard output
  -duration D     how long (default 5s); 0 is until Ctrl-C
  -file FILE      convert this perf.data file, of -record, instead: all of it, without root
  -record FILE    write the events to this perf.data file, too
  -ring-bytes N   size of each CPU's ring (default 4194304)
  -json           print the summary as JSON
  -version        print the versions of ringfold and libbpf, and do nothing else

For example:

  sudo trace2perfetto -duration 2s
  sudo trace2perfetto -o build.json.gz -duration 0 & make; sudo pkill -INT trace2perfetto

It exits with 1 after an error.
`

// config is what the flags say.
type config struct {
	output    string
	duration  time.Duration
	ringBytes int
	file      string // a recording to convert
	record    string // one to make
	json      bool
	version   bool
}

func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("trace2perfetto", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints the error
	f.StringVar(&c.output, "o", "trace.json", "")
	f.DurationVar(&c.duration, "duration", 5*time.Second, "")
	f.IntVar(&c.ringBytes, "ring-bytes", 4<<20, "")
	f.StringVar(&c.file, "file", "", "")
	f.StringVar(&c.record, "record", "", "")
	f.BoolVar(&c.json, "json", false, "")
	f.BoolVar(&c.version, "version", false, "")
	switch err := f.Parse(args); {
	case err != nil:
		return c, err
	case f.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	case c.duration < 0 || c.ringBytes <= 0:
		return c, errors.New("-duration must not be negative, and -ring-bytes not 0 or less")
	case c.file != "" && c.record != "":
		return c, errors.New("-file is a recording already: leave -record out")
	case c.json && c.output == "-":
		return c, errors.New("-json prints where -o - writes to: name a file")
	}
	return c, nil
}

// Run is the program. It returns its exit status.
func Run(args []string, stdout, stderr io.Writer) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "trace2perfetto: %v\n%s", err, usage)
		return 2
	case c.version:
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught, and ends the program at once

	out := &output{path: c.output, stdout: stdout}
	read := record
	if c.file != "" {
		read = convert
	}
	sum, err := read(ctx, c, out)
	if err := errors.Join(err, out.close()); err != nil {
		fmt.Fprintln(stderr, "trace2perfetto:", err)
		return 1
	}
	if c.json {
		_ = json.NewEncoder(stdout).Encode(sum)
		return 0
	}
	fmt.Fprintln(stderr, sum)
	return 0
}

// summary is what was recorded.
type summary struct {
	File      string  `json:"file"`
	Seconds   float64 `json:"seconds"`
	CPUs      int     `json:"cpus"`
	Slices    uint64  `json:"slices"`
	Forks     uint64  `json:"forks"`
	Execs     uint64  `json:"execs"`
	Exits     uint64  `json:"exits"`
	Lost      uint64  `json:"lost"`
	Unseen    uint64  `json:"unseen"`     // switches that others tell of
	HighWater float64 `json:"high_water"` // share of the fullest ring that was used at most
}

func (s summary) String() string {
	text := fmt.Sprintf("%s: %.1f s of %d CPUs: %d slices, %d forks, %d execs, %d exits; %d events lost; rings up to %.0f %% full\n",
		s.File, s.Seconds, s.CPUs, s.Slices, s.Forks, s.Execs, s.Exits, s.Lost, 100*s.HighWater)
	if s.Lost > 0 {
		text += "With larger rings (-ring-bytes) fewer are lost.\n"
	}
	return text + "Open it in https://ui.perfetto.dev, or in Chrome's chrome://tracing."
}
