package perfevent

import (
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// Each errno has its counter. A map's last entry counts every errno from there on.
func TestOutputsByErrno(t *testing.T) {
	var c kernel.CPUOutputs
	for errno, want := range map[syscall.Errno]*uint64{
		0: &c.Written, syscall.ENOSPC: &c.Full, syscall.ENOENT: &c.NoRing, syscall.EBUSY: &c.Nested,
		syscall.EOPNOTSUPP: &c.Offline, syscall.E2BIG: &c.NoEntry, tooLarge: &c.TooLarge, syscall.EINVAL: &c.Other, 126: &c.Other,
	} {
		require.Same(t, want, result(&c, int(errno), 127), "%v", errno)
		require.Same(t, &c.Other, result(&c, int(errno), int(errno)), "%v", errno)
	}
}
