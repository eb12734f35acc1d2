package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/spf13/cobra"
)

// Child is a command that is run while events are read.
type Child struct {
	Args  []string
	ended chan struct{}
	err   error
}

// startChild runs a command until it ends or ctx is done: then it gets a SIGTERM. It shares stdin and stderr, and what it prints goes
// to stderr, as stdout is for events. ended is called when it has ended.
func startChild(ctx context.Context, cmd *cobra.Command, args []string, ended func()) (*Child, error) {
	run := exec.CommandContext(ctx, args[0], args[1:]...)
	stderr := cli.Unwrap(cmd.ErrOrStderr()) // a file has no need of a goroutine that copies
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, stderr, stderr
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	if err := run.Start(); err != nil {
		return nil, fmt.Errorf("running %s: %w", args[0], err)
	}
	c := &Child{Args: args, ended: make(chan struct{})}
	go func() {
		c.err = run.Wait()
		close(c.ended)
		ended()
	}()
	return c, nil
}

func (c *Child) wait() { <-c.ended }

// Status is how it has ended, such as "exit status 1" or "signal: terminated", and 0 to 255 as a shell has it. Call it after Run.
func (c *Child) Status() (text string, code int) {
	c.wait()
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		return "exit status 0", 0
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return exit.String(), 128 + int(s.Signal())
	}
	return exit.String(), exit.ExitCode()
}
