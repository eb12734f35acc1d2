// Package cli is what the commands of ringfold have in common: how they begin and end, their flags,
// how they print, and the clock of events.
package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	ok     = 0
	failed = 1 // the command could not do its work
	misuse = 2 // the command line makes no sense
	unsure = 3 // see ErrIncomplete
)

// ErrIncomplete is in the error of a command that has done its work, if what it shows may not be all that it was asked for.
var ErrIncomplete = errors.New("not known to be complete")

// Main runs the tool and returns its exit status. The context of the command ends at the first Ctrl-C,
// SIGTERM or SIGHUP; the third or a later one kills the process, if it comes a second after the first.
// Errors go to stderr, one line each, except that of a closed stdout (| head).
func Main(root *cobra.Command, args []string) int {
	// With SIGPIPE caught, a write to a pipe that nobody reads any more fails instead of killing us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := untilSignal()
	defer stop()
	completeFlags(root)
	root.SetArgs(args)
	stdout, stderr := NewWriter(root.OutOrStdout()), NewWriter(root.ErrOrStderr())
	defer stderr.Close()
	defer stdout.Close()
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var usage *UsageError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return ok
	case errors.As(err, &usage):
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v (see %[1]s --help)\n", cmd.CommandPath(), err)
		return misuse
	default:
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
		if errors.Is(err, ErrIncomplete) {
			return unsure
		}
		return failed
	}
}

// UsageError is a mistake in the command line.
type UsageError struct{ error }

// Unwrap returns what is wrong.
func (e *UsageError) Unwrap() error { return e.error }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Args checks positional arguments as a cobra.PositionalArgs does; its errors are UsageErrors.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{err}
		}
		return nil
	}
}

// Root returns the tool without commands.
func Root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ringfold",
		Short: "Show, record and replay events of BPF perf event arrays and ring buffers, in order",
		Long: `Show, record and replay what BPF programs write to perf event arrays and ring buffers: the events of
all CPUs, in order of time. It reads the maps of any program on the system, and recordings.`,
		Example: `  sudo ringfold demo                                what order is worth, on your own system
  sudo ringfold list                                maps, their programs, and who holds them
  sudo ringfold tail --process execsnoop --steal    the events of one program's map
  ringfold tail events.data                         those of a recording, without root`,
		Args:          OnlyCommands,
		RunE:          func(cmd *cobra.Command, args []string) error { return cmd.Help() },
		Version:       perfbuf.Version(),
		SilenceErrors: true, // Main prints them
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultVersionFlag() // for manual pages, too
	root.Flags().SortFlags = false
	setUsage(root)
	return root
}
