//go:build linux && cgo

package perfchan_test

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/stretchr/testify/require"
)

func onlineCPUs(t *testing.T) []int {
	t.Helper()
	cpus, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	return cpus
}

// eventually waits until cond holds, for as long as it takes: what says for what, to readers of a trace.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for !cond() {
		time.Sleep(100 * time.Microsecond)
	}
}
