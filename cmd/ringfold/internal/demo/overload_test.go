package demo

import (
	"encoding/json"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// Each event of both floods is accounted for. Without lanes both kinds are lost alike. With them
// the others make room, and nothing important is lost unless the reader is stopped for so long that
// half a ring fills up.
func TestOverload(t *testing.T) {
	kerneltest.Require(t)
	status, out, notes := clitest.Run(t, Command, "--overload", "--json", "--timeout", "2s")
	require.Zero(t, status, notes)
	var floods []flood
	require.NoError(t, json.Unmarshal([]byte(out), &floods), out)
	require.Len(t, floods, 2)
	for i, f := range floods {
		require.Equal(t, i == 1, f.Lanes)
		for _, l := range []flooded{f.Important, f.Others} {
			require.NotZero(t, l.Delivered)
			require.Equal(t, l.Attempted, l.Delivered+l.Shed+l.Lost)
		}
		require.Equal(t, 256*f.Important.Attempted, f.Others.Attempted)
		require.Zero(t, f.Important.Shed)
		require.Equal(t, f.Lanes, f.Others.Shed > 0)
	}
	require.NotZero(t, floods[0].Others.Lost)

	status, out, notes = clitest.Run(t, Command, "--overload", "--timeout", "200ms")
	require.Zero(t, status, notes)
	require.Regexp(t, `(?m)^ +lanes, important +[\d,]+ +[\d,]+ +0 +[\d,]+$`, out)
	clitest.Misuse(t, Command, map[string]string{
		"--overload --all":       "--all is not for --overload",
		"--overload --timeout 0": "--overload ends: give --timeout",
	})
}
