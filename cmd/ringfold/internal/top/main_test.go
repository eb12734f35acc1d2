package top

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	clitest.Program(Command)
	os.Exit(m.Run())
}

// program is the command in a process of its own.
func program(t *testing.T, args ...string) (*exec.Cmd, *clitest.Output) {
	return clitest.Command(t, append([]string{"top"}, args...)...)
}

// inProcess runs the command here.
func inProcess(t *testing.T, args ...string) (status int, stdout, stderr string) {
	return clitest.Run(t, Command, args...)
}

func TestHelp(t *testing.T) {
	status, out, _ := inProcess(t, "--help")
	require.Zero(t, status)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, len(line), 132, line)
	}
	require.Less(t, strings.Index(out, "\n      --process"), strings.Index(out, "\n      --mode"))
	require.Less(t, strings.Index(out, "\n      --mode"), strings.Index(out, "\n  -o, --output"))
}

func TestMisuse(t *testing.T) {
	clitest.Misuse(t, Command, map[string]string{
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
	})
}

func TestModes(t *testing.T) {
	require.Equal(t, []mode{slack, exact, unordered}, []mode{unordered.next(), slack.next(), exact.next()})
	require.Equal(t, []mode{slack, exact, unordered}, []mode{modeOf(source.Slack), modeOf(source.Exact), modeOf(source.Unordered)})
	require.Equal(t, perfbuf.Order{}, exact.order(1))
	require.Equal(t, perfbuf.Slack(5), slack.order(5))
}
