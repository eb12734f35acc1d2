package workload

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// syscallNumber is that of no system call: entering it runs the programs, and then it fails with ENOSYS.
const syscallNumber = 9999

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

// Load makes system calls that sources output at: see Source.Attach.
type Load struct {
	threads int
	end     atomic.Bool
	done    sync.WaitGroup
}

// StartLoad starts threads on each CPU. Each makes groups of system calls, and sleeps for pause in between; without pause, never.
func StartLoad(cpus []int, threads, group int, pause time.Duration) *Load {
	l := &Load{threads: len(cpus) * threads}
	room(l.threads)
	for _, cpu := range cpus {
		for range threads {
			l.done.Go(func() { l.work(cpu, group, pause) })
		}
	}
	return l
}

func (l *Load) work(cpu, group int, pause time.Duration) {
	Pin(cpu)
	for !l.end.Load() {
		Call(group)
		if pause > 0 {
			time.Sleep(pause)
		}
	}
}

// Stop ends the threads.
func (l *Load) Stop() {
	if !l.end.Swap(true) {
		l.done.Wait()
		room(-l.threads)
	}
}

// Pin keeps the goroutine on a thread of its own on that CPU, until it ends.
func Pin(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set) // it may just have gone offline
}

// Call makes system calls that programs output at.
func Call(n int) {
	for range n {
		unix.RawSyscall(syscallNumber, 0, 0, 0)
	}
}

// Spin keeps CPUs busy without system calls, with so many threads each, until stop.
func Spin(cpus []int, threads int) (stop func()) {
	var end atomic.Bool
	var done sync.WaitGroup
	room(len(cpus) * threads)
	for _, cpu := range cpus {
		for range threads {
			done.Go(func() {
				Pin(cpu)
				for !end.Load() {
				}
			})
		}
	}
	return func() {
		end.Store(true)
		done.Wait()
		room(-len(cpus) * threads)
	}
}

// room has Go run so many threads more, as those of a load never leave theirs to others.
func room(threads int) { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + threads) }

// Probe says whether BPF programs can be loaded here.
func Probe() error {
	s, err := New(Config{Kind: "perf"})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Output(0, 1, HeaderSize)
}
