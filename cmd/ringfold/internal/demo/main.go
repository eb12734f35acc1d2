// Ordered follows the life of processes (fork, exec, exit) on all CPUs and
// prints one stream, in the order in which things happened.
//
// The kernel writes events into one ring per CPU. Read one ring after the
// other, events of different CPUs come out in the wrong order: the child may run before its
// parent forks it. Here perfbuf.Ordered puts them in order, by the time the kernel gave each.
//
// The program is meant to be read. probe.go loads the BPF programs, follow.go reads
// the stream, event.go decodes it, text.go and json.go print it, and
// summary.go checks and counts what was printed. Where BPF is not permitted, simulation.go stands in
// for the kernel, and life.go for its processes.
package demo

import (
	"context"
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

// Run is the program. It returns its exit status.
func Run(args []string, stdout, stderr *os.File) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ordered: %v\n%s", err, usage)
		return 2
	case c.version:
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	}

	// With SIGPIPE caught, a write to a pipe that nobody reads any more (| head) fails instead of killing us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught, and ends the program at once

	var out printer = newText(stdout, c)
	if c.json {
		out = jsonLines{}
	}
	var src source = &probe{sched: c.sched}
	if c.simulate {
		src = newSimulation(simulatedCPUs, c.seed, c.sched)
	}
	err = follow(ctx, c, src, out, stdout)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(stderr, "ordered: %v\n", err)
		return 1
	}
	return 0
}

// config is what the flags say.
type config struct {
	version   bool
	json      bool
	sched     bool
	workload  bool
	simulate  bool
	seed      uint64
	limit     uint64
	duration  time.Duration
	mode      string
	slack     time.Duration // in slack mode
	ringBytes int
}

// Values of config.mode.
const (
	exact = "exact"
	slack = "slack"
)

// order is the mode as the library has it.
func (c config) order() perfbuf.Mode {
	if c.mode == slack {
		return perfbuf.Slack(c.slack)
	}
	return perfbuf.Exact()
}

const usage = `Usage: ordered [flags]

Prints the processes that start, run programs and end on all CPUs, in the order of time.
It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF. Ctrl-C ends it, with a summary.

  -simulate      follow made-up processes on a simulated kernel instead; needs none of that
  -workload      also start short-lived processes on every CPU, so that there is something to see
  -sched         also show each wake-up and each switch of threads: many events
  -duration D    end after D, such as 5s
  -n N           end after N events
  -json          print JSON, one event per line, and the summary as the last line
  -mode M        exact (the default): print an event once it is proved that no older one is to come;
                 slack: print it after a fixed time, which is a guess
  -slack D       that time (default 1ms); selects -mode slack. An older event of another CPU that
                 comes later than that is printed all the same, marked as late
  -ring-bytes N  size of each CPU's ring (default 524288; 4194304 with -sched; 4096 with -simulate,
                 so that now and then one overflows)
  -seed N        with -simulate: other processes (default 1)
  -version       print which ringfold and which libbpf this is, and do nothing else

TIME is in seconds since the first event, DELTA since the line before.
In the JSON summary, reordered and overtaken tell what reading one ring after the other would have
done: how many events would have come right after a later one, and how many after any later one.
It exits with 1 after an error. An event out of order without being marked as late is one, and in
exact mode a late one, too.
`

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("ordered", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints the error
	f.BoolVar(&c.version, "version", false, "")
	f.BoolVar(&c.simulate, "simulate", false, "")
	f.Uint64Var(&c.seed, "seed", 1, "")
	f.BoolVar(&c.workload, "workload", false, "")
	f.BoolVar(&c.sched, "sched", false, "")
	f.DurationVar(&c.duration, "duration", 0, "")
	f.Uint64Var(&c.limit, "n", 0, "")
	f.BoolVar(&c.json, "json", false, "")
	f.StringVar(&c.mode, "mode", "", "")
	f.DurationVar(&c.slack, "slack", time.Millisecond, "")
	f.IntVar(&c.ringBytes, "ring-bytes", 0, "")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	case c.duration < 0 || c.slack < 0 || c.ringBytes < 0:
		return c, errors.New("-duration, -slack and -ring-bytes must not be negative")
	case given["mode"] && c.mode != exact && c.mode != slack:
		return c, fmt.Errorf("-mode is exact or slack, not %q", c.mode)
	case c.mode == exact && given["slack"]:
		return c, errors.New("-slack is for -mode slack: exact mode does not guess")
	case given["seed"] && !c.simulate:
		return c, errors.New("-seed is for -simulate")
	}
	if c.mode == "" {
		c.mode = exact
		if given["slack"] {
			c.mode = slack
		}
	}
	c.workload = c.workload && !c.simulate // which has its own
	if c.ringBytes == 0 {
		c.ringBytes = defaultRingBytes(c)
	}
	return c, nil
}

func defaultRingBytes(c config) int {
	switch {
	case c.simulate:
		return 4 << 10
	case c.sched:
		return 4 << 20
	default:
		return 512 << 10
	}
}
