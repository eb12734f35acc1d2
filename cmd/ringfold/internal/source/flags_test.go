package source

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// --pid 0 is the idle task's, and not the absence of the flag.
func TestPIDZero(t *testing.T) {
	for want, args := range [][]string{{"id", "1"}, {"id", "1,type=event", "--pid", "0"}} {
		var f Flags
		cmd := &cobra.Command{Use: "test", Args: f.Args, RunE: func(*cobra.Command, []string) error { return nil }}
		f.What(cmd.Flags())
		cmd.SetArgs(args)
		require.NoError(t, cmd.Execute())
		require.Equal(t, want == 1, f.Filters())
	}
}

// A shell would run what is in some names.
func TestOffer(t *testing.T) {
	all := offer(nil, "events-1.2", "id 3")
	for _, bad := range []string{"", "$(reboot)", "a b", "a;b", "a\nb", "\x1b[2J", "é"} {
		all = offer(all, bad, "")
	}
	require.Equal(t, []string{"events-1.2\tid 3"}, all)
}
