// Package clitest is what tests of commands have in common: the tool in this process, in one of its own, and what it prints while it runs.
package clitest

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// programEnv has a test binary be the tool.
const programEnv = "RINGFOLD_TEST_PROGRAM"

// Program is the tool with some commands if Command has started this process, and ends it then. Call it first in TestMain.
func Program(commands ...func() *cobra.Command) {
	if os.Getenv(programEnv) != "" {
		os.Exit(cli.Main(tool(commands...), os.Args[1:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
}

func tool(commands ...func() *cobra.Command) *cobra.Command {
	root := cli.Root()
	for _, c := range commands {
		root.AddCommand(c())
	}
	return root
}

// Command is the tool in a process of its own, for signals and privileges. Its stderr is kept, unless it is set to something else.
func Command(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *Output) {
	stderr = NewOutput(t)
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	cmd.Stderr = stderr
	return cmd, stderr
}

// Env is what has the test binary be the tool, for those who start it by a shell.
func Env() string { return programEnv + "=1" }

// Run runs one of the commands in this process, and returns when it has ended.
func Run(t *testing.T, command func() *cobra.Command, args ...string) (status int, stdout, stderr string) {
	out, notes := NewOutput(t), NewOutput(t)
	status = RunTo(out, notes, command, args...)
	return status, out.String(), notes.String()
}

// Misuse runs a command with arguments that make no sense. For each, it must print nothing but a line that has that text.
func Misuse(t *testing.T, command func() *cobra.Command, lines map[string]string) {
	t.Helper()
	for args, want := range lines {
		status, stdout, stderr := Run(t, command, strings.Fields(args)...)
		require.Equal(t, 2, status, args)
		require.Empty(t, stdout, args)
		require.Contains(t, stderr, want, args)
		require.Regexp(t, `^(ringfold `+command().Name()+`[a-z ]*): [^\n]+ \(see ringfold [a-z ]+ --help\)\n$`, stderr, args)
	}
}

// Running is the tool while it runs, in this process or in one of its own.
type Running struct {
	Out, Notes *Output
	PID        int
	Stdin      io.WriteCloser // of a process of its own
	Ended      chan struct{}  // closed at the end
	status     int
}

// Start starts a command in this process, and returns when it has said what matches a pattern of
// Output.Wait.
func Start(t *testing.T, said string, command func() *cobra.Command, args ...string) *Running {
	t.Helper()
	r := &Running{Out: NewOutput(t), Notes: NewOutput(t), PID: os.Getpid(), Ended: make(chan struct{})}
	go func() {
		defer close(r.Ended)
		r.status = RunTo(r.Out, r.Notes, command, args...)
	}()
	r.Notes.Wait(t, said)
	return r
}

// Spawn is Start in a process of its own, which is the tool that Program has.
func Spawn(t *testing.T, said string, args ...string) *Running {
	t.Helper()
	cmd, notes := Command(t, args...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	r := &Running{Out: NewOutput(t), Notes: notes, Stdin: stdin, Ended: make(chan struct{})}
	cmd.Stdout = r.Out
	require.NoError(t, cmd.Start())
	r.PID = cmd.Process.Pid
	go func() {
		defer close(r.Ended)
		defer r.Out.End()
		defer r.Notes.End()
		cmd.Wait()
		r.status = cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // if the test has failed
		<-r.Ended
	})
	r.Notes.Wait(t, said)
	return r
}

// Wait waits for the end of the tool, which must do well, and returns what it has printed.
func (r *Running) Wait(t *testing.T) string {
	t.Helper()
	require.Zero(t, r.Status(), r.Notes)
	return r.Out.String()
}

// Status waits for the end of the tool, and returns its exit status.
func (r *Running) Status() int {
	<-r.Ended
	return r.status
}

// Signal sends a signal to its process.
func (r *Running) Signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(r.PID, s))
}

// Interrupt ends it as Ctrl-C does, and is Wait then.
func (r *Running) Interrupt(t *testing.T) string {
	t.Helper()
	r.Signal(t, syscall.SIGINT)
	return r.Wait(t)
}

// RunTo is Run with others' outputs.
func RunTo(stdout, stderr *Output, command func() *cobra.Command, args ...string) (status int) {
	defer stdout.End()
	defer stderr.End()
	cmd := command()
	root := cli.Root()
	root.AddCommand(cmd)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Main(root, append([]string{cmd.Name()}, args...))
}

// Terminal makes a terminal of some width: what is written to tty can be read from the master.
func Terminal(t testing.TB, width uint16) (master, tty *os.File) {
	t.Helper()
	open := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	master = open("/dev/ptmx")
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty = open("/dev/pts/" + strconv.Itoa(n))
	require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}))
	return master, tty
}

// MapID is the id of a map, for a command line.
func MapID(t testing.TB, fd int) string {
	t.Helper()
	fd, err := syscall.Dup(fd)
	require.NoError(t, err)
	m, err := ebpf.NewMapFromFD(fd)
	require.NoError(t, err)
	defer m.Close()
	info, err := m.Info()
	require.NoError(t, err)
	id, ok := info.ID()
	require.True(t, ok)
	return strconv.Itoa(int(id))
}
