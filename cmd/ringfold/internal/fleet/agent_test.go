package fleet

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

// An agent that may not read this host's events says only that: it makes no spool, and tries no
// server.
func TestAgentUnprivileged(t *testing.T) {
	t.Parallel()
	kerneltest.RequireRoot(t)
	spool := filepath.Join(t.TempDir(), "spool", "spool.db")
	cmd := program(t, "agent", "--url", "nats://127.0.0.1:1", "--spool", spool)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.Error(t, cmd.Run())
	require.Empty(t, stdout.String())
	require.Regexp(t, `^ringfold fleet agent: .* lacks CAP_BPF and CAP_PERFMON: run it as root .*\n$`, stderr.String())
	require.NoDirExists(t, filepath.Dir(spool))
}
