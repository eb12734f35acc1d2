package fleet

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The test binary is the program too.
func TestMain(m *testing.M) {
	if os.Getenv("FLEET_TEST_PROGRAM") == "1" {
		main()
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector, each process would take a second to end
	os.Unsetenv("NATS_URL")
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "FLEET_TEST_PROGRAM=1")
	return cmd
}

// output runs the program, which must do well, and returns what it prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	cmd := program(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s%s", out, &stderr)
	return string(out)
}

// fails runs the program, which must fail with the status, and returns what it says.
func fails(t *testing.T, status int, args ...string) string {
	t.Helper()
	cmd := program(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, args)
	require.Equal(t, status, exit.ExitCode(), stderr.String())
	return stderr.String()
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
	for _, help := range [][]string{{"-h"}, {"help"}, {"--help"}} {
		require.Equal(t, usage, output(t, help...))
	}
	require.Equal(t, agentUsage, output(t, "agent", "-h"))
	require.Equal(t, tailUsage, output(t, "tail", "-h"))
	require.Equal(t, demoUsage, output(t, "demo", "-h"))
	for _, version := range [][]string{{"-version"}, {"agent", "-version"}, {"tail", "-version"}, {"demo", "-version"}} {
		require.Equal(t, perfbuf.Version().String()+"\n", output(t, version...))
	}
	require.Contains(t, fails(t, 2), "Usage: fleet")
	require.Contains(t, fails(t, 2, "frobnicate"), `unknown command "frobnicate"`)
	for want, args := range map[string]string{
		`unknown argument "x"`:                       "tail x",
		"flag provided but not defined: -frob":       "tail -frob",
		"-event open: there are fork, exec and exit": "tail -event exec,open",
		"-all and -since exclude each other":         "tail -all -since 1m",
		"-once needs -all or -since":                 "tail -once",
		"-dead and -buffer must be positive":         "tail -dead 0s",
		"a time ago, such as 10m":                    "tail -since yesterday",
		"without a sign":                             "tail -since -10m",
		"names, separated by commas":                 "tail -host a,,b",
		"-max-age must be 2m0s at least":             "agent -max-age 1m",
		"-spool-bytes and -rate must be positive":    "agent -spool-bytes 0",
		"-hosts must be from 1 to 1000":              "demo -hosts 0 -no-real",
		"(fleet demo -h tells how to use it)":        "demo -frob",
	} {
		require.Contains(t, fails(t, 2, strings.Fields(args)...), want)
	}
	require.Contains(t, fails(t, 1, "tail", "-url", "nats://me:secret@localhost"), "-url must not have a user or a password in it")
}
