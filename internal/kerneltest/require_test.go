package kerneltest

import (
	"runtime"
	"testing"

	_ "github.com/ringfold/ringfold/cgo" // links libbpf, which libbpfgo leaves to others
	"github.com/stretchr/testify/require"
)

// Tests that a machine can never run are skipped, not failed, where kernel tests are required.
func TestRequireMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux alone has a release to compare")
	}
	t.Setenv(RequireEnv, "1")
	skips := func(f func(t *testing.T)) (skipped bool) {
		t.Run("", func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			f(t)
		})
		return skipped
	}
	require.True(t, skips(func(t *testing.T) { RequireLinux(t, 99, 0, "the future") }))
	require.False(t, skips(func(t *testing.T) { RequireLinux(t, 5, 8, "BPF capabilities") }))
	require.True(t, skips(func(t *testing.T) { RequireCPUs(t, 1<<20, "many") }))
	require.False(t, skips(func(t *testing.T) { RequireCPUs(t, 1, "any") }))
	require.True(t, AtLeast(t, 5, 0))
}
