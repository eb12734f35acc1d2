//go:build linux && cgo

package grace

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// proveSurely retries an unclear proof, or skips the test on a machine that is too busy.
func proveSurely(t *testing.T, wait, noWait func() error) error {
	for range 20 {
		if err := prove(wait, noWait); err != errUnclear {
			return err
		}
	}
	t.Skip("too busy a machine: its threads see programs end without any wait")
	return nil
}

// prove confirms each provider, and exposes functions that do not wait.
func TestKernelProve(t *testing.T) {
	kerneltest.Require(t)
	kerneltest.RequireCPUs(t, 2, "one to look on while the program runs on the other")
	nothing := func() error { return nil }
	providers(t, func(t *testing.T, p Provider) {
		begin := time.Now()
		err := proveSurely(t, p.Wait, nothing)
		t.Logf("%v in %v", err, time.Since(begin))
		if p.Name() == NestLevels.String() {
			require.Equal(t, errDoesNotWait, err, "the program outputs nothing")
			return
		}
		require.NoError(t, err)
	})
	t.Run("no wait", func(t *testing.T) {
		require.Equal(t, errDoesNotWait, proveSurely(t, nothing, nothing))
	})
	t.Run("refused earlier", func(t *testing.T) {
		p, err := bindSome(bindable)
		require.NoError(t, err)
		require.Equal(t, errDoesNotWait, proveSurely(t, p.noWait, p.noWait))
	})
	t.Run("an error", func(t *testing.T) {
		require.Equal(t, unix.EPERM, proveSurely(t, func() error { return unix.EPERM }, nothing))
	})
}

// If no program is seen running after noWait, nothing is proven. Here noWait waits too.
func TestKernelProveUnclear(t *testing.T) {
	kerneltest.Require(t)
	p, err := openMapInMap()
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, errUnclear, prove(p.Wait, p.Wait))
}

// A process confined to one CPU can prove it as well: the program runs on another one.
func TestKernelProveOnOneCPU(t *testing.T) {
	kerneltest.RequireRoot(t)
	kerneltest.RequireCPUs(t, 2, "one for the program")
	p, err := bindSome(bindable)
	require.NoError(t, err)
	require.NoError(t, proveSurely(t, p.Wait, p.noWait))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpus, err := twoCPUs()
	require.NoError(t, err)
	var before, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	one.Set(cpus[0])
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	defer unix.SchedSetaffinity(0, &before)
	err = errUnclear
	for tries := 0; err == errUnclear && tries < 20; tries++ {
		err = prove(p.Wait, p.noWait)
	}
	require.NoError(t, err)
}

// A proof stays. An unclear one is retried, but not by each stream at once.
func TestProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p proof
		tries := 0
		get := func(err error) error {
			return p.get(func() error { tries++; time.Sleep(mostProof); return err })
		}
		for range 5 {
			require.Equal(t, errUnclear, get(errUnclear))
		}
		require.Equal(t, 1, tries)
		time.Sleep(unclear)
		require.Equal(t, errUnclear, get(errUnclear))
		time.Sleep(unclear - 1)
		require.Equal(t, errUnclear, get(nil))
		require.Equal(t, 2, tries)
		time.Sleep(time.Nanosecond)
		require.NoError(t, get(nil))
		time.Sleep(time.Hour)
		require.NoError(t, get(errDoesNotWait))
		require.Equal(t, 3, tries)

		p = proof{}
		require.Equal(t, errDoesNotWait, get(errDoesNotWait))
		time.Sleep(time.Hour)
		require.Equal(t, errDoesNotWait, get(nil))
	})
}
