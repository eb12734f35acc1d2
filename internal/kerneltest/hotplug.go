package kerneltest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Plug takes a CPU online or offline, if it is not already.
func Plug(t testing.TB, cpu int, online bool) {
	t.Helper()
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	want := "0"
	if online {
		want = "1"
	}
	if now, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(now)) == want {
		return
	}
	if err := os.WriteFile(file, []byte(want), 0); err != nil {
		t.Fatal(err)
	}
}

// HotCPUs returns the last two of at least three online CPUs, which are online again after the
// test.
func HotCPUs(t testing.TB, online []int) (cold, hot []int) {
	t.Helper()
	if len(online) < 3 {
		t.Skipf("takes three CPUs, two of them to take offline: online are %v", online)
	}
	n := len(online) - 2
	t.Cleanup(func() {
		for _, cpu := range online[n:] {
			Plug(t, cpu, true)
		}
	})
	return online[:n], online[n:]
}
