package perfevent

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchHearsOfCPUs(t *testing.T) {
	const uevent = "/sys/devices/system/cpu/cpu0/uevent"
	if f, err := os.OpenFile(uevent, os.O_WRONLY, 0); err != nil {
		t.Skip("needs root, to have the kernel send a uevent: ", err)
	} else {
		f.Close()
	}
	w := watchCPUs()
	require.NoError(t, w.err())
	require.True(t, w.wait(time.Nanosecond), "the time is up")
	done := make(chan bool, 1)
	wakes := func() bool { // a uevent of another device
		go func() { done <- w.wait(0) }()
		require.NoError(t, os.WriteFile("/sys/devices/virtual/mem/null/uevent", []byte("change"), 0))
		select {
		case <-done:
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	}
	for tries := 0; wakes(); tries++ { // or one of a CPU, by another process's test
		require.Less(t, tries, 50, "woken by another device")
	}
	require.NoError(t, os.WriteFile(uevent, []byte("change"), 0))
	require.True(t, <-done)

	go func() { done <- w.wait(0) }()
	w.close()
	require.False(t, <-done)
	require.False(t, w.wait(0))
}

// Without uevents, the list of CPUs is read periodically.
func TestWatchWithoutUevents(t *testing.T) {
	w := &cpuWatch{why: os.ErrPermission, closed: make(chan struct{})}
	require.True(t, w.wait(0))
	require.Equal(t, os.ErrPermission, w.err())
	w.close()
	require.False(t, w.wait(0))
}
