package source

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/spf13/cobra"
)

// Command is a command that is run while events are read. Its end is known after Run.
type Command struct {
	Args   []string `json:"args"`
	Status string   `json:"status"` // such as "exit status 1" or "signal: terminated"
	Exit   int      `json:"exit"`   // 0 to 255, as a shell has it
	ended  chan struct{}
}

// startCommand runs a command until it ends or ctx is done: then it gets a SIGTERM. It shares stdin and
// stderr, and its output goes to stderr too, as stdout is for events. It calls ended at its end.
func startCommand(ctx context.Context, cmd *cobra.Command, args []string, ended func()) (*Command, error) {
	run := exec.CommandContext(ctx, args[0], args[1:]...)
	stderr := cli.Unwrap(cmd.ErrOrStderr()) // a file has no need of a goroutine that copies
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, stderr, stderr
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	if err := run.Start(); err != nil {
		return nil, fmt.Errorf("running %s: %w", args[0], err)
	}
	c := &Command{Args: args, ended: make(chan struct{})}
	go func() {
		_ = run.Wait() // its state says how it has ended
		c.Status, c.Exit = run.ProcessState.String(), run.ProcessState.ExitCode()
		if s, ok := run.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			c.Exit = 128 + int(s.Signal())
		}
		close(c.ended)
		ended()
	}()
	return c, nil
}

func (c *Command) wait() { <-c.ended }
