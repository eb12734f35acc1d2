// Callbacks reads the same events in three ways, and tells what each has received, lost, and cost.
//
// The ways are in files of their own, to be read side by side: channels.go is libbpfgo's, through Go channels; dropin.go is the
// same with perfchan.InitPerfBuf, one line apart; folds.go reads events where they lie, which is what one should do.
//
// callbacks.bpf.c is the BPF program, and counts.go and program.go its counterpart; workload.go and calls.go are another process,
// which causes the events; measure.go and table.go are what is around.
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

	"github.com/ringfold/ringfold/perfbuf"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns its exit status.
func run(args []string, stdout, stderr *os.File) int {
	if rate, ok := os.LookupEnv(callsEnv); ok {
		if err := makeCalls(rate, os.Stdin, stdout); err != nil {
			fmt.Fprintf(stderr, "callbacks: workload: %v\n", err)
			return 1
		}
		return 0
	}
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "callbacks: %v\n%s", err, usage)
		return 2
	case c.version:
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught, and ends the program at once
	if err := compare(ctx, c, stdout); err != nil {
		fmt.Fprintf(stderr, "callbacks: %v\n", explain(err))
		return 1
	}
	return 0
}

// way is a way of reading.
type way struct {
	name string
	read func(*workload) (counts, error)
}

var ways = []way{{"channels", channels}, {"dropin", dropin}, {"folds", folds}}

// config is what the flags say.
type config struct {
	ways     []way
	duration time.Duration // of each way
	rate     int
	json     bool
	version  bool
}

const usage = `Usage: callbacks [flags]

Another process makes system calls on all CPUs, each is an event of a BPF program, and this one counts them:
with libbpfgo's channels, with those of perfchan.InitPerfBuf, and in place. It needs root, or CAP_BPF and
CAP_PERFMON. Ctrl-C ends it, with what there is by then.

  -way W       channels, dropin, folds, or all of them in turn (the default)
  -duration D  how long each way is run (default 5s)
  -rate N      system calls per second on all CPUs together (default 100000); 0: as many as can be
  -json        print JSON, one way per line
  -version     print which ringfold and which libbpf this is, and do nothing else

CPU time is that of this whole process, user and system, the Go runtime and the closing of rings included, from
the start of the system calls to the end of the way. The process that makes them is not included; wake-ups are charged
to whoever runs when they come, which is mostly that one. Each system call of this process passes the BPF program
too, which lets it go. docs/benchmarks.md has measurements made with more care.
`

// parse reads the command line.
func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("callbacks", flag.ContinueOnError)
	f.SetOutput(io.Discard) // run prints the error
	name := f.String("way", "all", "")
	f.DurationVar(&c.duration, "duration", 5*time.Second, "")
	f.IntVar(&c.rate, "rate", 100_000, "")
	f.BoolVar(&c.json, "json", false, "")
	f.BoolVar(&c.version, "version", false, "")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	for _, w := range ways {
		if *name == w.name || *name == "all" {
			c.ways = append(c.ways, w)
		}
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	case c.ways == nil:
		return c, fmt.Errorf("-way is channels, dropin, folds or all, not %q", *name)
	case c.duration < 0 || c.rate < 0:
		return c, errors.New("-duration and -rate must not be negative")
	}
	return c, nil
}
