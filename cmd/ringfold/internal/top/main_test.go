package top

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		os.Exit(cli.Main(root(), append([]string{"top"}, os.Args[1:]...)))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Exit(m.Run())
}

const asProgram = "RINGTOP_TEST_PROGRAM"

func program(args ...string) (cmd *exec.Cmd, stderr *strings.Builder) {
	stderr = &strings.Builder{}
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = stderr
	return cmd, stderr
}

// root is the tool, with this command only.
func root() *cobra.Command {
	root := cli.Root()
	root.AddCommand(Command())
	return root
}

// inProcess runs the command here.
func inProcess(args ...string) (status int, stdout, stderr string) {
	var out, errors bytes.Buffer
	r := root()
	r.SetOut(&out)
	r.SetErr(&errors)
	status = cli.Main(r, append([]string{"top"}, args...))
	return status, out.String(), errors.String()
}

func TestHelp(t *testing.T) {
	status, out, _ := inProcess("--help")
	require.Zero(t, status)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, len(line), 132, line)
	}
	require.Less(t, strings.Index(out, "\n      --process"), strings.Index(out, "\n      --mode"))
	require.Less(t, strings.Index(out, "\n      --mode"), strings.Index(out, "\n  -o, --output"))
}

func TestMisuse(t *testing.T) {
	for args, want := range map[string]string{
		"what":                 "name a map by id N",
		"--mode fuzzy":         "none of exact, slack and unordered",
		"--interval 1ms":       "10ms at least",
		"--load -1":            "must not be negative",
		"id 0":                 "an id is a number from 1 on",
		"name x --load 5":      "--load is for a map of its own",
		"--steal -load 5":      "--load is for a map of its own",
		"--unheard":            "unknown flag",
		"--timeout -5s":        "must not be negative",
		"name x -- true":       "see ringfold stat",
		"a.data --ring-size x": "is not a size",
	} {
		status, out, err := inProcess(strings.Fields(args)...)
		require.Equal(t, 2, status, args)
		require.Empty(t, out)
		require.Contains(t, err, want)
		require.Regexp(t, `^ringfold top: [^\n]* \(see ringfold top --help\)\n$`, err)
	}
}

func TestModes(t *testing.T) {
	require.Equal(t, []mode{slack, exact, unordered}, []mode{unordered.next(), slack.next(), exact.next()})
	require.Equal(t, []mode{slack, exact, unordered}, []mode{modeOf(source.Slack), modeOf(source.Exact), modeOf(source.Unordered)})
	require.Equal(t, perfbuf.Exact(), exact.order(1))
	require.Equal(t, perfbuf.Slack(5), slack.order(5))
}
