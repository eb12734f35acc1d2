// Package kerneltest lets tests use the real kernel: it loads the workload, outputs on any CPU, and
// checks the events that arrive. It is for tests only.
package kerneltest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/cpulist"
)

// RequireEnv set to 1 turns the skip of a kernel test into a failure.
const RequireEnv = "RINGFOLD_REQUIRE_KERNEL"

// Require skips the test, naming every unmet need, if this machine or user
// cannot run BPF programs and open perf events. With RINGFOLD_REQUIRE_KERNEL=1 it fails instead.
func Require(t testing.TB) {
	t.Helper()
	if unmet := Unmet(); len(unmet) > 0 {
		unable(t, "needs the kernel, but: "+strings.Join(unmet, "; "))
	}
}

// unable skips the test, or has it fail where it must run.
func unable(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf("%s (%s=1)", why, RequireEnv)
	}
	t.Skip(why)
}

// RequireCommand returns the path of an external program. If it is not installed, the test is
// skipped, or fails as with Require.
func RequireCommand(t testing.TB, name string) string {
	t.Helper()
	for _, file := range []string{name, "/usr/sbin/" + name} { // not in everybody's PATH
		if path, err := exec.LookPath(file); err == nil {
			return path
		}
	}
	unable(t, "needs the program "+name+": scripts/setup.sh ci installs it")
	return ""
}

// RequireRoot is Require for tests that also take on other users' identities, or mount.
func RequireRoot(t testing.TB) {
	t.Helper()
	Require(t)
	if uid := os.Geteuid(); uid != 0 {
		unable(t, fmt.Sprintf("needs root, but this is uid %d", uid))
	}
}

// capabilities by number, of include/uapi/linux/capability.h.
const (
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

// Unmet lists the missing requirements of kernel tests.
func Unmet() (unmet []string) {
	var caps uint64
	// Read this thread's status, not the main thread's (/proc/self): a test may give up
	// capabilities on that one, and nobody uses it afterwards.
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return []string{fmt.Sprintf("not Linux, or no /proc: %v", err)}
	}
	for line := range strings.Lines(string(status)) {
		fmt.Sscanf(line, "CapEff: %x", &caps)
	}
	if caps>>capSysAdmin&1 == 0 {
		for _, c := range []struct {
			bit  int
			name string
		}{{capBPF, "CAP_BPF"}, {capPerfmon, "CAP_PERFMON"}} {
			if caps>>c.bit&1 == 0 {
				unmet = append(unmet, fmt.Sprintf("uid %d lacks %s", os.Geteuid(), c.name))
			}
		}
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		unmet = append(unmet, "the kernel has no BTF: "+err.Error())
	}
	if _, err := os.Stat("/sys/devices/system/cpu/online"); err != nil {
		unmet = append(unmet, "the list of online CPUs is missing: "+err.Error())
	}
	return unmet
}

// RequireLinux skips the test on kernels before major.minor, which lack the named feature. Unlike
// Require it skips with RINGFOLD_REQUIRE_KERNEL=1 too: no privilege or set-up would make this
// machine run it.
func RequireLinux(t testing.TB, major, minor int, what string) {
	t.Helper()
	if !AtLeast(t, major, minor) {
		t.Skipf("needs Linux %d.%d (%s), and this is %s", major, minor, what, release(t))
	}
}

// RequireCPUs skips the test if fewer than n CPUs are online or usable by this process, with
// RINGFOLD_REQUIRE_KERNEL=1 too. why is the rest of "needs n CPUs online".
func RequireCPUs(t testing.TB, n int, why string) {
	t.Helper()
	online := OnlineCPUs(t)
	if len(online) < n {
		t.Skipf("needs %d CPUs online (%s), and these are: %v", n, why, online)
	}
	if usable := runtime.NumCPU(); usable < n {
		t.Skipf("needs %d CPUs (%s), and may run on %d", n, why, usable)
	}
}

// OnlineCPUs returns the CPUs that are online.
func OnlineCPUs(t testing.TB) []int {
	t.Helper()
	cpus, err := cpulist.Online(cpulist.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// AtLeast reports whether the kernel is Linux major.minor or newer, for tests of which only a part
// needs it.
func AtLeast(t testing.TB, major, minor int) bool {
	t.Helper()
	var gotMajor, gotMinor int
	if _, err := fmt.Sscanf(release(t), "%d.%d", &gotMajor, &gotMinor); err != nil {
		t.Fatalf("the kernel's release is %q: %v", release(t), err)
	}
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}

func release(t testing.TB) string { return read(t, "/proc/sys/kernel/osrelease") }

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
