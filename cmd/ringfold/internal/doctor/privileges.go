package doctor

import (
	"fmt"
	"math/bits"
	"os"
	"strings"

	"github.com/ringfold/ringfold/internal/cpulist"
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
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "tells which processes of other users hold a map (--process)", Warn},
}

// effective is the set of this thread's effective capabilities. The system call answers where there is no /proc, too.
func effective() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return 0
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

func (r *Report) privileges() {
	caps := effective()
	has := func(bit int) bool { return caps>>bit&1 != 0 }
	for _, c := range capabilities {
		if has(c.bit) {
			r.Capabilities = append(r.Capabilities, c.name)
		}
	}
	for _, c := range capabilities {
		// CAP_SYS_ADMIN stands for both (bpf_capable and perfmon_capable in include/linux/capability.h).
		instead := c.lack == Bad && has(unix.CAP_SYS_ADMIN)
		switch {
		case has(c.bit):
			r.ok(c.name, "yes: %s", c.buys)
		case instead:
			r.ok(c.name, "no, but CAP_SYS_ADMIN stands for it: %s", c.buys)
		default:
			r.add(c.lack, c.name, fmt.Sprintf("no (uid %d): %s", r.UID, c.buys), grant(c.name))
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

// sandbox is what may refuse system calls to those who have the capabilities.
func (r *Report) sandbox() {
	var found []string
	if content("/proc/self/status") == "" {
		found = append(found, "cannot be seen, as there is no /proc")
	}
	if host.InUserNamespace() {
		found = append(found, "a user namespace: capabilities do not count")
	}
	if host.SeccompNote() != "" {
		found = append(found, "a seccomp filter")
	}
	if lockdown := content("/sys/kernel/security/lockdown"); strings.Contains(lockdown, "[confidentiality]") {
		found = append(found, "kernel lockdown, at confidentiality: BPF may not read the kernel's memory, and tracing is refused")
	}
	if len(found) == 0 {
		r.ok("sandbox", "none: no user namespace, no seccomp filter, no lockdown to be seen")
		return
	}
	r.add(Warn, "sandbox", strings.Join(found, "; "), "If rings or programs are refused below, allow bpf, perf_event_open and mount there: see docs/permissions.md.")
}

func (r *Report) paranoid() {
	const name = "perf_event_paranoid"
	level := host.Sysctl("kernel/"+name, -100)
	found := fmt.Sprint(level)
	switch {
	case level == -100:
		r.add(Warn, name, "cannot be read", "Mount proc on /proc. Without perf events in the kernel (CONFIG_PERF_EVENTS) nothing works.")
	case level > 2 && effective()>>unix.CAP_SYS_ADMIN&1 == 0:
		r.add(Warn, name, found+": on Debian, and on Ubuntu before the end of 2025, this refuses all who lack CAP_SYS_ADMIN",
			"If rings are refused below: sysctl kernel.perf_event_paranoid=2, and the same in /etc/sysctl.d.")
	default:
		r.ok(name, "%s", found)
	}
}

func (r *Report) lockedMemory() {
	const name = "locked memory"
	kb := host.Sysctl("kernel/perf_event_mlock_kb", -1)
	if effective()>>unix.CAP_IPC_LOCK&1 != 0 {
		r.ok(name, "no limit, by CAP_IPC_LOCK (perf_event_mlock_kb is %d)", kb)
		return
	}
	if kb < 0 {
		r.add(Warn, name, "kernel.perf_event_mlock_kb cannot be read; RLIMIT_MEMLOCK is "+host.Memlock(), "Mount proc on /proc.")
		return
	}
	found := fmt.Sprintf("%d KiB per CPU (perf_event_mlock_kb), and RLIMIT_MEMLOCK of %s beyond", kb, host.Memlock())
	page := os.Getpagesize() >> 10
	if most := kb - page; most >= page { // one page is the ring's head and tail; the rest is a power of two
		found += fmt.Sprintf(": rings of %d KiB fit for sure", 1<<(bits.Len(uint(most))-1))
	}
	if host.OlderThan(5, 11) {
		r.add(Warn, name, found, "Before Linux 5.11 BPF maps count against RLIMIT_MEMLOCK too: ulimit -l unlimited, or LimitMEMLOCK=infinity.")
		return
	}
	r.ok(name, "%s", found)
}

func (r *Report) openFiles() {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		r.failed(Warn, "open files", err, "")
		return
	}
	online, _ := cpulist.Parse(r.CPUsOnline)
	needed := uint64(3*len(online) + 64) // 2 to 3 per ring, and what the process has besides
	found := fmt.Sprintf("at most %d (RLIMIT_NOFILE); a reader takes 2 to 3 per CPU", l.Cur)
	if l.Cur < needed {
		r.add(Warn, "open files", found, fmt.Sprintf("Raise it to %d or more: ulimit -n, LimitNOFILE=.", needed))
		return
	}
	r.ok("open files", "%s", found)
}
