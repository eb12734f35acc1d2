package workload

import (
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// syscallNumber is that of no system call: entering it runs the programs, and then it fails with ENOSYS. Another suite that runs at the
// same time has another one.
var syscallNumber = 1<<20 + os.Getpid()

// Attach has the source output at each system call of a Load, until detach. Programs that are running then go on to their end.
func (s *Source) Attach() (detach func(), err error) {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: s.maps.Programs["on_syscall_"+s.Kind]})
	if err != nil {
		return nil, fmt.Errorf("attaching to sys_enter: %w", err)
	}
	return sync.OnceFunc(func() { l.Close() }), nil
}

// Ticks has the source, a perf event array, output from the interrupt of a timer on each of these CPUs, until stop.
func (s *Source) Ticks(cpus []int, period time.Duration) (stop func(), err error) {
	var fds []int
	stop = sync.OnceFunc(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(period),
			Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitDisabled,
		}, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err == nil {
			fds = append(fds, fd)
			err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, s.maps.Programs["on_timer_perf"].FD())
		}
		if err == nil {
			err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("a timer on CPU %d: %w", cpu, err)
		}
	}
	return stop, nil
}

// Probe says whether BPF programs can be loaded here.
func Probe() error {
	s, err := New(Config{Kind: "perf"})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Output(0, 1, HeaderSize)
}
