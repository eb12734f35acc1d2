package fleet

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	os.Unsetenv("NATS_URL")
	os.Setenv("TZ", "UTC")
	if os.Getenv("FLEET_TEST_PROGRAM") == "1" {
		os.Exit(cli.Main(root(), os.Args[1:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Exit(m.Run())
}

func root() *cobra.Command {
	root := cli.Root()
	root.AddCommand(Command())
	return root
}

// program is for what takes a process of its own: signals, privileges.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{"fleet"}, args...)...)
	cmd.Env = append(os.Environ(), "FLEET_TEST_PROGRAM=1")
	return cmd
}

// run runs the command in this process.
func run(args ...string) (status int, stdout, stderr string) {
	var out bytes.Buffer
	var notes notesBuffer
	root := root()
	root.SetOut(&out)
	root.SetErr(&notes)
	status = cli.Main(root, append([]string{"fleet"}, args...))
	notes.mu.Lock()
	defer notes.mu.Unlock()
	return status, out.String(), notes.text.String()
}

// notesBuffer is stderr: connections note what becomes of them at any time.
type notesBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notesBuffer) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

// output runs the command, which must do well, and returns what it prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	status, stdout, stderr := run(args...)
	require.Zerof(t, status, "%s%s", stdout, stderr)
	return stdout
}

// fails runs the command, which must fail with the status, and returns what it says.
func fails(t *testing.T, status int, args ...string) string {
	t.Helper()
	got, _, stderr := run(args...)
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
	for want, args := range map[string]string{
		`ringfold fleet: unknown command "frobnicate": there are agent, tail and demo (see ringfold fleet --help)`: "frobnicate",
		`unknown command "x" for "ringfold fleet tail" (see ringfold fleet tail --help)`:                           "tail x",
		"unknown flag: --frob":                        "tail --frob",
		"--event open: there are fork, exec and exit": "tail --event exec,open",
		"--all and --since exclude each other":        "tail -all -since 1m",
		"--once needs --all or --since":               "tail --once",
		"--dead and --buffer must be positive":        "tail --dead 0s",
		"a time ago, such as 10m":                     "tail --since yesterday",
		"without a sign":                              "tail --since -10m",
		"names, separated by commas":                  "tail --host a,,b",
		"--max-age must be 2m0s at least":             "agent --max-age 1m",
		"--spool-bytes and --rate must be positive":   "agent --spool-bytes 0",
		"--hosts must be from 1 to 1000":              "demo --hosts 0 --no-real",
	} {
		said := fails(t, 2, strings.Fields(args)...)
		require.Contains(t, said, want)
		require.Equal(t, 1, strings.Count(said, "\n"), said)
	}
	require.Contains(t, fails(t, 1, "tail", "--url", "nats://me:secret@localhost"), "--url must not have a user or a password in it")
}
