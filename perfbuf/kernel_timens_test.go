//go:build linux && cgo

package perfbuf_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// timeEnv has a process make a time namespace for its children, in which CLOCK_MONOTONIC is so many
// seconds ahead.
const timeEnv = "RINGFOLD_TEST_TIME_NAMESPACE"

// It happens here as this is the main thread, whose namespaces /proc/self shows.
func init() {
	if offset := os.Getenv(timeEnv); offset != "" {
		if err := unshareTime(offset); err != nil {
			panic(err)
		}
	}
}

// unshareTime makes a time namespace for the children of this thread.
func unshareTime(offset string) error {
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("unshare(CLONE_NEWTIME): %w", err)
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), []byte("monotonic "+offset+" 0\n"), 0)
}

// A reader's clock and Now agree with the events' clock in every time namespace. Open refuses where
// the kernel does not reveal the offset.
func TestKernelTimeNamespace(t *testing.T) {
	if _, err := os.Lstat("/proc/self/ns/time"); err != nil {
		t.Skip("needs time namespaces (CONFIG_TIME_NS, Linux 5.6)")
	}
	for _, c := range []struct{ within, unshared string }{
		{"", "1000"}, {"", "-3"}, // has made one
		{"1000", ""}, {"-3", ""}, // is in one
		{"1000", "2000"}, {"-3", "0"}, // both
	} {
		t.Run(fmt.Sprintf("within %s, unshared %s", c.within, c.unshared), func(t *testing.T) {
			if c.within != "" && os.Getenv(childEnv) == "" {
				kerneltest.RequireRoot(t)
				runtime.LockOSThread() // never unlocked: the thread ends with the test
				require.NoError(t, unshareTime(c.within))
			}
			t.Setenv(timeEnv, c.unshared)
			asSomebody(t, identity{root: true}, requireKernelsClock)
		})
	}
}

func requireKernelsClock(t *testing.T, e *remote) {
	own, err := os.Readlink("/proc/self/ns/time")
	require.NoError(t, err)
	childrens, err := os.Readlink("/proc/self/ns/time_for_children")
	require.NoError(t, err)
	const initial = "time:[4026531834]"
	t.Log(own, childrens)
	// Not so before Linux 6.2, where exec does not enter a time namespace
	if own != initial && own != childrens {
		require.ErrorContains(t, openFails(t, childFD, perfbuf.Options{}), "perfbuf.Open: this process is in a time namespace")
		return
	}
	r := openChild(t, perfbuf.Options{RingBytes: 64 << 10})
	defer r.Close()
	cpu := r.Rings()[0].CPU()
	var times []uint64
	for range 5 {
		times = append(times, perfbuf.Now())
		e.emit(cpu, 1)
		// The marker's time is by the reader's clock
		require.NoError(t, perfbuf.StreamOf(t, r).Flush())
		for _, rec := range collect(t, perfbuf.StreamOf(t, r)) {
			times = append(times, rec.Time)
		}
	}
	require.Len(t, times, 15)
	require.IsIncreasing(t, times)
	perfbuf.CloseStreamsOf(r, true)
	s, err := r.Stream(perfbuf.StreamOptions{})
	require.NoError(t, err)
	defer s.Close()
	useStream(t, e, r, s)
}
