package fleet

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	os.Unsetenv("NATS_URL")
	os.Setenv("TZ", "UTC")
	clitest.Program(Command)
	os.Exit(m.Run())
}

// program is the command in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	cmd, _ := clitest.Command(t, append([]string{"fleet"}, args...)...)
	cmd.Stderr = nil
	return cmd
}

// run runs the command in this process.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	return clitest.Run(t, Command, args...)
}

// output runs the command, which must do well, and returns what it prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	status, stdout, stderr := run(t, args...)
	require.Zerof(t, status, "%s%s", stdout, stderr)
	return stdout
}

// fails runs the command, which must fail with the status, and returns what it says.
func fails(t *testing.T, status int, args ...string) string {
	t.Helper()
	got, _, stderr := run(t, args...)
	require.Equal(t, status, got, stderr)
	return stderr
}

// lines parses lines of JSON.
func lines(t *testing.T, out string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		all = append(all, o)
	}
	return all
}

func TestArguments(t *testing.T) {
	require.Contains(t, output(t), "ringfold fleet demo --outage")
	for _, verb := range []string{"agent", "tail", "demo"} {
		help := output(t, verb, "--help")
		require.Contains(t, help, "ringfold fleet "+verb+" [flags]")
		for line := range strings.Lines(help) {
			require.LessOrEqual(t, len([]rune(line)), 160, line)
		}
	}
	clitest.Misuse(t, Command, map[string]string{
		"frobnicate":               `ringfold fleet: unknown command "frobnicate" (see ringfold fleet --help)`,
		"tial --once":              `ringfold fleet: unknown command "tial": did you mean tail? (see ringfold fleet --help)`,
		"tail x":                   `unknown command "x" for "ringfold fleet tail" (see ringfold fleet tail --help)`,
		"tail --frob":              "unknown flag: --frob",
		"tail --event exec,open":   "--event open: there are fork, exec and exit",
		"tail --all --since 1m":    "--all and --since exclude each other",
		"tail --once":              "--once needs --all or --since",
		"tail --dead 0s":           "--dead and --buffer must be positive",
		"tail --since yesterday":   "a time ago, such as 10m",
		"tail --since -10m":        "without a sign",
		"tail --host a,,b":         "names, separated by commas",
		"agent --max-age 1m":       "--max-age must be 2m0s at least",
		"agent --spool-bytes 0":    "--spool-bytes and --rate must be positive",
		"demo --hosts 0 --no-real": "--hosts must be from 1 to 1000",
	})
	require.Contains(t, fails(t, 1, "tail", "--url", "nats://me:secret@localhost"), "--url must not have a user or a password in it")
}
