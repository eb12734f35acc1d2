package doctor

import (
	"fmt"
	"math/bits"
	"os"
	"strings"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/host"
	"golang.org/x/sys/unix"
)

// capabilities, and what each buys.
var capabilities = []struct {
	bit  int
	name string
	buys string
	lack Status
}{
	{unix.CAP_BPF, "CAP_BPF", "loads programs, opens rings, orders exactly", Bad},
	{unix.CAP_PERFMON, "CAP_PERFMON", "traces, and opens rings of CPUs that come online later", Bad},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "finds maps of other programs by id and name; exact order waits microseconds, not milliseconds (before Linux 6.19)", Warn},
	{unix.CAP_IPC_LOCK, "CAP_IPC_LOCK", "rings of any size", Warn},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "shows which processes of other users hold a map (--process)", Warn},
}

// has reports whether this thread has a capability. The system call also answers where there is no /proc.
func has(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[capability/32].Effective>>(capability%32)&1 != 0
}

func (r *Report) privileges() {
	for _, c := range capabilities {
		switch {
		case has(c.bit):
			r.add(OK, c.name, "yes: "+c.buys, "")
		case c.lack == Bad && has(unix.CAP_SYS_ADMIN): // bpf_capable and perfmon_capable in include/linux/capability.h
			r.add(OK, c.name, "no, but CAP_SYS_ADMIN includes it: "+c.buys, "")
		default:
			r.add(c.lack, c.name, fmt.Sprintf("no (uid %d): %s", os.Geteuid(), c.buys), grant(c.name))
		}
	}
}

// grant says how to get a capability.
func grant(name string) string {
	if host.InUserNamespace() {
		return "Only capabilities of the initial user namespace count: run it outside of the container, or in one without user namespace."
	}
	return "Run it as root (sudo), or grant " + strings.ToLower(name) + ": see docs/permissions.md."
}

// sandbox reports what may refuse system calls despite the capabilities.
func (r *Report) sandbox() {
	var found []string
	for _, c := range []struct {
		is   bool
		what string
	}{
		{content("/proc/self/status") == "", "cannot be seen, as there is no /proc"},
		{host.InUserNamespace(), "a user namespace: capabilities do not count"},
		{host.SeccompNote() != "", "a seccomp filter"},
		{strings.Contains(content("/sys/kernel/security/lockdown"), "[confidentiality]"),
			"kernel lockdown, at confidentiality: BPF may not read the kernel's memory, and tracing is refused"},
	} {
		if c.is {
			found = append(found, c.what)
		}
	}
	if len(found) == 0 {
		r.add(OK, "sandbox", "none: no user namespace, no seccomp filter, no lockdown to be seen", "")
		return
	}
	r.add(Warn, "sandbox", strings.Join(found, "; "), "If rings or programs are refused below, allow bpf, perf_event_open and mount there: see docs/permissions.md.")
}

func (r *Report) paranoid() {
	const name, missing = "perf_event_paranoid", -100
	level := host.Sysctl("kernel/"+name, missing)
	switch {
	case level == missing:
		r.add(Warn, name, "cannot be read", "Mount proc on /proc. Without perf events in the kernel (CONFIG_PERF_EVENTS) nothing works.")
	case level > 2 && !has(unix.CAP_SYS_ADMIN):
		r.add(Warn, name, fmt.Sprintf("%d: on Debian, and on Ubuntu before the end of 2025, this refuses all who lack CAP_SYS_ADMIN", level),
			"If rings are refused below: sysctl kernel.perf_event_paranoid=2, and the same in /etc/sysctl.d.")
	default:
		r.add(OK, name, fmt.Sprint(level), "")
	}
}

func (r *Report) lockedMemory() {
	const name = "locked memory"
	kb := host.Sysctl("kernel/perf_event_mlock_kb", -1)
	found := fmt.Sprintf("%d KiB per CPU (perf_event_mlock_kb), and RLIMIT_MEMLOCK of %s beyond", kb, host.Memlock())
	page := os.Getpagesize() >> 10
	if most := kb - page; most >= page { // one page is the ring's head and tail; the rest is a power of two
		found += fmt.Sprintf(": rings of %d KiB fit for sure", 1<<(bits.Len(uint(most))-1))
	}
	switch {
	case has(unix.CAP_IPC_LOCK):
		r.add(OK, name, fmt.Sprintf("no limit, by CAP_IPC_LOCK (perf_event_mlock_kb is %d)", kb), "")
	case kb < 0:
		r.add(Warn, name, "kernel.perf_event_mlock_kb cannot be read; RLIMIT_MEMLOCK is "+host.Memlock(), "Mount proc on /proc.")
	case bpf.OlderThan(5, 11):
		r.add(Warn, name, found, "Before Linux 5.11 BPF maps count against RLIMIT_MEMLOCK too: ulimit -l unlimited, or LimitMEMLOCK=infinity.")
	default:
		r.add(OK, name, found, "")
	}
}
