//go:build linux && cgo

package grace

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Each provider is proven, and what does not wait is found out, or nothing is said.
func TestKernelProve(t *testing.T) {
	kerneltest.Require(t)
	kerneltest.RequireCPUs(t, 2, "one to look on while the program runs on the other")
	nothing := func() error { return nil }
	prove := func(t *testing.T, wait, noWait func() error) error {
		for range 20 {
			if err := prove(wait, noWait); err != errUnclear {
				return err
			}
		}
		t.Skip("too busy a machine: its threads see programs end without any wait")
		return nil
	}
	providers(t, func(t *testing.T, p Provider) {
		begin := time.Now()
		err := prove(t, p.Wait, nothing)
		t.Logf("%v in %v", err, time.Since(begin))
		if p.Name() == NestLevels.String() {
			require.Equal(t, errDoesNotWait, err, "the program outputs nothing")
			return
		}
		require.NoError(t, err)
	})
	t.Run("no wait", func(t *testing.T) {
		require.Equal(t, errDoesNotWait, prove(t, nothing, nothing))
	})
	t.Run("refused earlier", func(t *testing.T) {
		p, err := bindSome(bindable)
		require.NoError(t, err)
		require.Equal(t, errDoesNotWait, prove(t, p.noWait, p.noWait))
	})
	t.Run("an error", func(t *testing.T) {
		require.Equal(t, unix.EPERM, prove(t, func() error { return unix.EPERM }, nothing))
	})
}

// Programs end while nothing waits, too: where none is seen to go on without the wait, nothing is proved. Here that waits as well.
func TestKernelProveUnclear(t *testing.T) {
	kerneltest.Require(t)
	p, err := openMapInMap()
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, errUnclear, prove(p.Wait, p.Wait))
}
