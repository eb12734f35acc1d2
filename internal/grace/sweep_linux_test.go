package grace

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// requireSweep opens a sweep over all online CPUs, and skips the test if some are not for us.
func requireSweep(t testing.TB, cpus []int) Provider {
	t.Helper()
	p, err := openSweep(cpus)
	if err != nil && strings.Contains(err.Error(), "may not run") {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// Each CPU is visited, in turn; those that are offline or do not exist are not needed.
func TestVisit(t *testing.T) {
	online, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	requireSweep(t, online)
	done := make(chan struct{})
	go func() { // its thread is thrown away
		defer close(done)
		runtime.LockOSThread()
		one := make(cpuMask, 1+4096/wordBits)
		for range 20 {
			for _, cpu := range online {
				if err := visit(cpu, one); err != nil {
					t.Error(err)
				}
				if got := threadCPUs(t); got != strconv.Itoa(cpu) {
					t.Errorf("thread is on %s, not %d", got, cpu)
				}
			}
		}
		if err := visit(4000, one); err != nil {
			t.Error(err)
		}
	}()
	<-done
}

// threadCPUs returns the list of CPUs that this thread may run on.
func threadCPUs(t *testing.T) string {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return ""
}

// No other thread is moved: not the caller's, not a new one.
func TestSweepLeavesOthersAlone(t *testing.T) {
	online, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPUs(t)
	p := requireSweep(t, append(online, 4000))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			runtime.LockOSThread() // and never unlock: a thread for each
			for range 20 {
				if err := p.Wait(); err != nil {
					t.Error(err)
				}
				if got := threadCPUs(t); got != before {
					t.Errorf("thread may run on %s, not %s", got, before)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, before, threadCPUs(t))
}

func TestSweepClose(t *testing.T) {
	online, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	p := requireSweep(t, online)
	require.NoError(t, p.Wait())
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Wait(), os.ErrClosed)
}

// A CPU on which the process may not run cannot be swept.
func TestSweepRefused(t *testing.T) {
	online, err := cpulist.Online(cpulist.Dir)
	require.NoError(t, err)
	mask := make(cpuMask, 4096/wordBits)
	require.NoError(t, allowed(nil, mask))
	require.NoError(t, allowed([]int{4000}, mask), "offline")
	err = allowed(online, mask)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "CPU "+strconv.Itoa(online[0]))
	for _, cpus := range [][]int{nil, {-1}} {
		_, err := openSweep(cpus)
		require.Error(t, err)
	}
}
