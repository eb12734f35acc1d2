//go:build cgo

package kerneltest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PerfRecord makes perf record the outputs on these CPUs, until stop, which returns the CPU time
// that it took. It puts perf's own perf events into the map.
func PerfRecord(t testing.TB, e *Emitter, path string, args ...string) (cpus []int, stop func() time.Duration) {
	t.Helper()
	args = append([]string{"record", "-q", "-a", "-e", "bpf-output/no-inherit=1,name=emitted/", "-o", path}, args...)
	cmd := exec.Command(RequireCommand(t, "perf"), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fds := perfFDs(t, cmd.Process.Pid)
	events, err := e.Module().GetMap("events")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		cpu, value := uint32(len(cpus)), uint32(fd)
		if events.Update(unsafe.Pointer(&cpu), unsafe.Pointer(&value)) == nil { // others are dummies
			cpus = append(cpus, int(cpu))
		}
	}
	if len(cpus) == 0 {
		t.Fatal("perf record has no event that fits into the map")
	}
	for _, cpu := range cpus { // perf enables them next: until then, outputs fail
		for before := ^uint64(0); ; time.Sleep(10 * time.Millisecond) {
			e.Emit(cpu, 1, MinSize)
			_, failed := e.Counts(cpu)
			if failed == before {
				break
			}
			before = failed
		}
	}
	return cpus, func() time.Duration {
		for _, fd := range fds {
			unix.Close(fd)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
}

// perfFDs returns another process's perf events, in the order of their descriptors, once it has
// mapped them.
func perfFDs(t testing.TB, pid int) (fds []int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	for ; ; time.Sleep(10 * time.Millisecond) {
		// When the process has mapped one, it has opened all. Earlier descriptors only probe the
		// kernel's features.
		if m, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)); !bytes.Contains(m, []byte("perf_event")) {
			continue
		}
		var numbers []int
		for n := range 1000 {
			if to, _ := os.Readlink(fmt.Sprint(dir, "/", n)); to == "anon_inode:[perf_event]" {
				numbers = append(numbers, n)
			}
		}
		for _, n := range numbers {
			fd, err := unix.PidfdGetfd(pidfd, n, 0)
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		return fds
	}
}
