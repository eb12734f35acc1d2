package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// run runs a tool whose command x ends with an error.
func run(end error, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	root := Root()
	x := &cobra.Command{Use: "x", Args: Args(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Fprintln(cmd.OutOrStdout(), "x runs")
		return end
	}}
	x.Flags().Duration("timeout", 0, "")
	root.AddCommand(x, Version())
	root.SetOut(&out)
	root.SetErr(&errs)
	status = Main(root, args)
	return status, out.String(), errs.String()
}

// A mistake in the command line is a line, with where to look.
func TestUsageErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"ringfold: unknown command \"yonder\" (see ringfold --help)\n":                           {"yonder"},
		"ringfold: unknown flag: --bogus (see ringfold --help)\n":                                {"--bogus"},
		"ringfold x: unknown flag: --bogus (see ringfold x --help)\n":                            {"x", "--bogus"},
		"ringfold: unknown command \"vresion\": did you mean version? (see ringfold --help)\n":   {"vresion", "--timeout", "1s"},
		"ringfold x: unknown flag: --tiemout: did you mean --timeout? (see ringfold x --help)\n": {"x", "--tiemout", "1s"},
		"ringfold x: unknown shorthand flag: 'y' in -y (see ringfold x --help)\n":                {"x", "-y"},
		"ringfold x: unknown command \"1\" for \"ringfold x\" (see ringfold x --help)\n":         {"x", "1"},
	} {
		status, out, errs := run(nil, args...)
		require.Equal(t, misuse, status)
		require.Empty(t, out)
		require.Equal(t, want, errs)
	}
}

func TestFailure(t *testing.T) {
	status, _, errs := run(errors.New("broken"), "x")
	require.Equal(t, failed, status)
	require.Equal(t, "ringfold x: broken\n", errs)
}

// A reader that has gone away (| head) is no failure.
func TestClosedPipe(t *testing.T) {
	status, _, errs := run(fmt.Errorf("write: %w", syscall.EPIPE), "x")
	require.Equal(t, ok, status)
	require.Empty(t, errs)
}

// Tests of commands run tools side by side, and what these share in cobra must not be written then.
func TestSideBySide(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if status, out, errs := run(nil, "x", "--help"); status != ok || !strings.Contains(out, "--timeout") {
				t.Error(status, out, errs)
			}
		})
	}
	all.Wait()
}
