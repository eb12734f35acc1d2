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
	prove := func(wait, noWait func() error) error {
		for {
			if err := prove(wait, noWait); err != errUnclear {
				return err
			}
		}
	}
	providers(t, func(t *testing.T, p Provider) {
		begin := time.Now()
		err := prove(p.Wait, nothing)
		t.Logf("%v in %v", err, time.Since(begin))
		require.NoError(t, err)
	})
	t.Run("no wait", func(t *testing.T) {
		require.Equal(t, errDoesNotWait, prove(nothing, nothing))
	})
	t.Run("not the last close", func(t *testing.T) {
		p, err := cloneSome(mountsToClone)
		require.NoError(t, err)
		defer p.Close()
		held := func() error { return p.clone(true) }
		require.Equal(t, errDoesNotWait, prove(held, held))
	})
	t.Run("an error", func(t *testing.T) {
		require.Equal(t, unix.EPERM, prove(func() error { return unix.EPERM }, nothing))
	})
}

// Programs end while nothing waits, too: what takes longer than they do proves nothing.
func TestKernelProveUnclear(t *testing.T) {
	kerneltest.Require(t)
	late := func() error { time.Sleep(10 * longRun); return nil }
	require.Equal(t, errUnclear, prove(late, late))
}
