package doctor

import (
	"fmt"
	"os"
	"strings"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// content is that of a small file, empty if there is none.
func content(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

func (r *Report) kernel() {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		r.failed(Bad, "kernel", err, "")
		return
	}
	found := "Linux " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	switch {
	case host.Refuse32Bit() != nil:
		r.failed(Bad, "kernel", host.Refuse32Bit(), "")
	case bpf.OlderThan(4, 18):
		r.add(Bad, "kernel", found, "Linux 4.18 is the oldest that works.")
	case bpf.OlderThan(5, 10):
		r.add(Warn, "kernel", found, "Linux 5.10 is the oldest on which all tests run.")
	default:
		r.add(OK, "kernel", found, "")
	}
}

// ringBuffers warns of Linux 6.15 to 6.18. There, bpf_ringbuf_reserve takes an rqspinlock (kernel/bpf/ringbuf.c), which waits 250 ms for
// one that the code it has interrupted holds, unless it notices; before, an NMI's program only tried. Since 6.19 it notices
// (kernel/bpf/rqspinlock.c). Later releases of 6.17 and 6.18 have parts of that.
func (r *Report) ringBuffers() {
	const name = "BPF ring buffers"
	switch {
	case bpf.OlderThan(5, 8):
		r.add(Warn, name, "none before Linux 5.8", "Use perf event arrays.")
	case bpf.OlderThan(6, 15) || !bpf.OlderThan(6, 19):
		r.add(OK, name, "there are", "")
	default:
		r.add(Warn, name, "a CPU may freeze for 250 ms when an NMI's program, such as a profiler's, outputs while the program that it interrupted does",
			"Linux 6.19 mends it. Until then, let such programs output to maps of their own, or to perf event arrays.")
	}
}

func (r *Report) cpus() {
	const dir = "/sys/devices/system/cpu/"
	list := content(dir + "online")
	online, err := cpulist.Parse(list)
	if err != nil {
		r.failed(Bad, "CPUs", fmt.Errorf("no list of the CPUs that are online: %w", err), "Mount sysfs on /sys: rings are opened for the CPUs in "+dir+"online.")
		return
	}
	r.online = len(online)
	found := fmt.Sprintf("%d online (%s), %s possible", len(online), list, content(dir+"possible"))
	if full := content(dir + "nohz_full"); full != "" && full != "(null)" {
		found += "; nohz_full: " + full
	}
	r.add(OK, "CPUs", found, "")
}

func (r *Report) clock() {
	source := content("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	found := "CLOCK_MONOTONIC, by " + source
	switch source {
	case "":
		found += "an unknown source"
	case "hpet", "acpi_pm", "jiffies", "refined-jiffies":
		r.add(Warn, "clock", found, "Reading this clock takes around a microsecond, for each event: see dmesg for why the kernel does not trust tsc.")
		return
	}
	if perfbuf.Now() == 0 {
		r.add(Warn, "clock", "its offset in this time namespace is not known", "Events are read all the same, but not how long they take. Mount proc on /proc.")
		return
	}
	r.add(OK, "clock", found, "")
}

func (r *Report) btf() {
	if err := bpfload.BTF(); err != nil {
		r.failed(Bad, "BTF", err, "demo, trace and fleet, and most programs of others, need it; the rest of ringfold works without.")
		return
	}
	r.add(OK, "BTF", "/sys/kernel/btf/vmlinux", "")
}

func (r *Report) openFiles() {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		r.failed(Warn, "open files", err, "")
		return
	}
	needed := uint64(3*r.online + 64) // 2 to 3 per ring, and the other files of the process
	status, fix := OK, ""
	if l.Cur < needed {
		status, fix = Warn, fmt.Sprintf("Raise it to %d or more: ulimit -n, LimitNOFILE=.", needed)
	}
	r.add(status, "open files", fmt.Sprintf("at most %d (RLIMIT_NOFILE); a reader takes 2 to 3 per CPU", l.Cur), fix)
}
