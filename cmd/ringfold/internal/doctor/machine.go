package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/ringfold/ringfold/internal/bpfload"
	"github.com/ringfold/ringfold/internal/cpulist"
	"github.com/ringfold/ringfold/internal/host"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// Examine looks at everything. It blocks for up to some seconds, and leaves nothing behind.
func Examine(ctx context.Context) *Report {
	r := &Report{Version: perfbuf.Version().String(), Arch: runtime.GOARCH, UID: os.Geteuid(), Capabilities: []string{}}
	r.kernel()
	r.cpus()
	r.clock()
	r.btf()
	r.privileges()
	r.sandbox()
	r.paranoid()
	r.lockedMemory()
	r.openFiles()
	r.rings(ctx)
	return r
}

// content is that of a small file, empty if there is none.
func content(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (r *Report) kernel() {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		r.failed(Bad, "kernel", err, "")
		return
	}
	r.Kernel = unix.ByteSliceToString(u.Release[:])
	found := "Linux " + r.Kernel + " " + unix.ByteSliceToString(u.Machine[:])
	switch {
	case host.Refuse32Bit() != nil:
		r.failed(Bad, "kernel", host.Refuse32Bit(), "")
	case host.OlderThan(5, 8):
		r.add(Bad, "kernel", found, "Linux 5.8 is the oldest that works, and 5.10 the oldest that is tested.")
	case host.OlderThan(5, 10):
		r.add(Warn, "kernel", found, "Linux 5.10 is the oldest that is tested.")
	default:
		r.ok("kernel", "%s", found)
	}
}

func (r *Report) cpus() {
	const dir = "/sys/devices/system/cpu/"
	r.CPUsOnline, r.CPUsPossible = content(dir+"online"), content(dir+"possible")
	online, err := cpulist.Parse(r.CPUsOnline)
	if err != nil {
		r.failed(Bad, "CPUs", fmt.Errorf("no list of the CPUs that are online: %w", err), "Mount sysfs on /sys: rings are opened for the CPUs in "+dir+"online.")
		return
	}
	found := fmt.Sprintf("%d online (%s), %s possible", len(online), r.CPUsOnline, r.CPUsPossible)
	if full := content(dir + "nohz_full"); full != "" && full != "(null)" {
		found += "; nohz_full: " + full
	}
	r.ok("CPUs", "%s", found)
}

func (r *Report) clock() {
	source := content("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	if source == "" {
		source = "unknown"
	}
	clock, err := host.NewClock()
	if err != nil {
		r.failed(Warn, "clock", err, "Events are read all the same, but delays from event to delivery are not known.")
		return
	}
	var own unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &own) // it exists everywhere
	found := "CLOCK_MONOTONIC, by " + source
	if shift := (time.Duration(own.Nano()) - time.Duration(clock.Now())).Round(time.Second); shift != 0 {
		found += fmt.Sprintf(", in a time namespace that shifts it by %v, which is corrected", shift)
	}
	switch source {
	case "hpet", "acpi_pm", "jiffies", "refined-jiffies":
		r.add(Warn, "clock", found, "Reading this clock takes around a microsecond, for each event: see dmesg for why the kernel does not trust tsc.")
	default:
		r.ok("clock", "%s", found)
	}
}

func (r *Report) btf() {
	if err := bpfload.BTF(); err != nil {
		r.failed(Bad, "BTF", err, "demo, trace and fleet, and most programs of others, need it; the rest of ringfold works without.")
		return
	}
	r.ok("BTF", "/sys/kernel/btf/vmlinux")
}
