// Ordered follows the life of processes (fork, exec, exit) on all CPUs and
// prints one stream, in the order in which things happened.
//
// The kernel writes events into one ring per CPU. Read one ring after the
// other, events of different CPUs come out in the wrong order: the child may run before its
// parent forks it. Here perfbuf.Ordered puts them in order, by the time the kernel gave each.
//
// The program is meant to be read. probe.go loads the BPF programs, follow.go reads
// the stream, event.go decodes it, text.go and json.go print it, and
// summary.go checks and counts what was printed.
package main

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
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns its exit status.
func run(args []string, stdout, stderr *os.File) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "ordered: %v\n%s", err, usage)
		return 2
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
	err = follow(ctx, c, out, stdout)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(stderr, "ordered: %v\n", err)
		return 1
	}
	return 0
}

// config is what the flags say.
type config struct {
	json      bool
	sched     bool
	workload  bool
	limit     uint64
	duration  time.Duration
	slack     time.Duration
	ringBytes int
}

const usage = `Usage: ordered [flags]

Prints the processes that start, run programs and end on all CPUs, in the order of time.
It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF. Ctrl-C ends it, with a summary.

  -workload      also start short-lived processes on every CPU, so that there is something to see
  -sched         also show each wake-up and each switch of threads: many events
  -duration D    end after D, such as 5s
  -n N           end after N events
  -json          print JSON, one event per line, and the summary as the last line
  -slack D       wait D for older events of other CPUs before printing one (default 1ms);
                 what comes later than that is printed all the same, marked as late
  -ring-bytes N  size of each CPU's ring (default 524288; 4194304 with -sched)

TIME is in seconds since the first event, DELTA since the line before.
It exits with 1 after an error, or if events came out of order without being marked as late.
`

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("ordered", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints the error
	f.BoolVar(&c.workload, "workload", false, "")
	f.BoolVar(&c.sched, "sched", false, "")
	f.DurationVar(&c.duration, "duration", 0, "")
	f.Uint64Var(&c.limit, "n", 0, "")
	f.BoolVar(&c.json, "json", false, "")
	f.DurationVar(&c.slack, "slack", time.Millisecond, "")
	f.IntVar(&c.ringBytes, "ring-bytes", 0, "")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	case c.duration < 0 || c.slack < 0 || c.ringBytes < 0:
		return c, errors.New("-duration, -slack and -ring-bytes must not be negative")
	case c.ringBytes == 0 && c.sched:
		c.ringBytes = 4 << 20
	case c.ringBytes == 0:
		c.ringBytes = 512 << 10
	}
	return c, nil
}
