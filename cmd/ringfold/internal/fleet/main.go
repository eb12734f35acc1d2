// Fleet puts the process events of many hosts into one ordered log, over NATS JetStream: each host runs an agent, and anyone who wants
// to read runs a tail.
//
// agent/ reads this host's events and publishes them in batches (wire/), by way of a spool on disk (spool/). tail/ merges them. The
// files here are the command: agent.go, tail.go and demo.go for its three verbs; filter.go, text.go, json.go and summary.go print.
package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringfold/ringfold/perfbuf"
)

const usage = `Usage: fleet agent|tail|demo [flags]

One ordered log of what processes do on many hosts, over NATS JetStream.

  agent     reads this host's process events and publishes them; needs root, or CAP_BPF and CAP_PERFMON
  tail      prints the events of all hosts, or of some, in the order of time, and says what is missing
  demo      shows it all on this machine: a server, hosts, a tail, and a check of what it printed
  -version  prints which ringfold and which libbpf this is

fleet agent -h, fleet tail -h and fleet demo -h tell more.
`

// errUsage is of a command line that is wrong.
var errUsage = errors.New("usage")

// Run is the program. It returns its exit status.
func Run(args []string, stdout, stderr io.Writer) int {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	var do func(ctx context.Context, args []string, out io.Writer, note func(string)) error
	switch verb {
	case "agent":
		do = runAgent
	case "tail":
		do = runTail
	case "demo":
		do = runDemo
	case "-h", "-help", "--help", "help":
		fmt.Fprint(stdout, usage)
		return 0
	case "-version", "--version", "version":
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	default:
		fmt.Fprintf(stderr, "fleet: unknown command %q\n%s", verb, usage)
		return 2
	}
	// With SIGPIPE caught, a write to a pipe that nobody reads any more (| head) fails instead of killing us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not caught, and ends the program at once

	note := func(text string) { fmt.Fprintf(stderr, "fleet %s: %s\n", verb, text) }
	err := do(ctx, args, stdout, note)
	switch {
	case err == nil || errors.Is(err, syscall.EPIPE):
		return 0
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, perfbuf.Version())
		return 0
	case errors.Is(err, errUsage):
		note(err.Error())
		return 2
	}
	note(err.Error())
	return 1
}

// errVersion asks for the version.
var errVersion = errors.New("version")

// parse parses a verb's flags. It prints help to out, and then returns done.
func parse(f *flag.FlagSet, args []string, out io.Writer, help string) (done bool, err error) {
	f.SetOutput(io.Discard)
	version := f.Bool("version", false, "")
	err = f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, help)
		return true, nil
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", f.Arg(0))
	case *version:
		return false, errVersion
	default:
		return false, nil
	}
	return false, wrong("%v (fleet %s -h tells how to use it)", err, f.Name())
}

// wrong is an error of the command line.
func wrong(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

type usageError struct{ text string }

func (e usageError) Error() string        { return e.text }
func (e usageError) Is(target error) bool { return target == errUsage }
