package top

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
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

func TestUsage(t *testing.T) {
	cmd, _ := program("-h")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, usage, string(out))
	for line := range strings.Lines(usage) {
		require.LessOrEqual(t, len(line), 132, line)
	}
	cmd, _ = program("-version")
	out, err = cmd.Output()
	require.NoError(t, err)
	require.Equal(t, perfbuf.Version().String()+"\n", string(out))
}

func TestParse(t *testing.T) {
	for args, want := range map[string]string{
		"what":                "unknown argument",
		"-mode fuzzy":         "modes are unordered, slack, exact",
		"-interval 1ms":       "10ms at least",
		"-load -1":            "must not be negative",
		"-plain -json":        "exclude each other",
		"-id 0":               "an id is a number from 1 on",
		"-name x -load 5":     "-load is for a map of its own",
		"-unheard":            "not defined",
		"-duration -5s -json": "must not be negative",
	} {
		_, err := parse(strings.Fields(args))
		require.ErrorContains(t, err, want, args)
		cmd, stderr := program(strings.Fields(args)...)
		require.Error(t, cmd.Run())
		require.Equal(t, 2, cmd.ProcessState.ExitCode())
		require.Contains(t, stderr.String(), want)
	}
	c, err := parse(nil)
	require.NoError(t, err)
	require.True(t, c.own())
	require.Equal(t, 64<<10, c.ringBytes)
	c, err = parse([]string{"-steal", "-mode", "exact"})
	require.NoError(t, err)
	require.False(t, c.own())
	require.Zero(t, c.ringBytes, "the library's default")
	require.Equal(t, exact, c.mode)
}

func TestModes(t *testing.T) {
	require.Equal(t, []mode{slack, exact, unordered}, []mode{unordered.next(), slack.next(), exact.next()})
	require.Equal(t, perfbuf.Exact(), exact.order(1))
	require.Equal(t, perfbuf.Slack(5), slack.order(5))
}
