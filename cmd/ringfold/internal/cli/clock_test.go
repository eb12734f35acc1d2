package cli

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// In a time namespace, events still have the kernel's times.
func TestNow(t *testing.T) {
	const child = "RINGFOLD_TEST_NOW"
	if os.Getenv(child) != "" {
		fmt.Print(Now())
		os.Exit(0)
	}
	if _, err := os.Lstat("/proc/self/ns/time"); err != nil {
		t.Skip("needs time namespaces (CONFIG_TIME_NS, Linux 5.6)")
	}
	kerneltest.RequireRoot(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, offset := range []string{"-3", "1000000"} {
		cmd := exec.Command("unshare", "--time", "--monotonic="+offset, "--fork", self, "-test.run=^TestNow$")
		cmd.Env = append(os.Environ(), child+"=1")
		before := Now()
		out, err := cmd.Output()
		require.NoError(t, err)
		theirs, err := strconv.ParseUint(string(out), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, theirs, before)
		require.LessOrEqual(t, theirs, Now())
	}
}

func TestAge(t *testing.T) {
	before := Now()
	require.LessOrEqual(t, Age(before), Now()-before)
	require.Zero(t, Age(math.MaxUint64))
}
