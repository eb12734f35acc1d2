package grace

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/ringfold/ringfold/internal/cpulist"
	"golang.org/x/sys/unix"
)

const sweepName = "cpu-sweep"

// sweep waits by running on each of a list of CPUs in turn. What a CPU does with preemption off is
// over when it runs our thread; bpf_perf_event_output turns preemption off before the kernel takes
// the event's time, and on again after it is published. So a sweep is exact for the kernel's times
// (PERF_SAMPLE_TIME), though not for times that programs take themselves: a program may be
// preempted between that and its output.
//
// That is so since Linux 6.5 and stable kernels with its fix "bpf: Disable preemption in
// bpf_perf_event_output". Since 5.11, a preemptible kernel without it may preempt some programs,
// such as those at uprobes and function entries, between the two: there the sweep is not exact.
//
// A thread that is pinned to a CPU, and visits others, must be nobody else's. So a goroutine owns
// it, and Wait has that goroutine do the work.
type sweep struct {
	mu     sync.Mutex    // one Wait at a time
	work   chan struct{} // asks for a sweep
	result chan error    // of that sweep
	quit   chan struct{} // closed by Close
	closed sync.Once
}

// openSweep starts a sweep's goroutine. It fails if the process may not run on one of the CPUs.
func openSweep(cpus []int) (Provider, error) {
	if len(cpus) == 0 {
		return nil, errors.New("no CPUs given to visit")
	}
	s := &sweep{work: make(chan struct{}), result: make(chan error), quit: make(chan struct{})}
	go s.run(slices.Clone(cpus))
	if err := <-s.result; err != nil {
		return nil, err
	}
	return s, nil
}

func (*sweep) Name() string { return sweepName }

func (s *sweep) Wait() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.work <- struct{}{}:
		return <-s.result
	case <-s.quit:
		return os.ErrClosed
	}
}

func (s *sweep) Close() error {
	s.closed.Do(func() { close(s.quit) })
	return nil
}

// run is the goroutine. It says first whether it can work.
func (s *sweep) run(cpus []int) {
	// Never unlocked: the thread, and its affinity, end with the goroutine.
	runtime.LockOSThread()
	home := make(cpuMask, 1<<16/wordBits) // the kernel wants room for as many CPUs as it may ever have
	n, err := affinity(unix.SYS_SCHED_GETAFFINITY, home)
	if err == nil {
		home = home[:n*8/wordBits]
		err = allowed(cpus, home)
	}
	s.result <- err
	if err != nil {
		return
	}
	one := make(cpuMask, slices.Max(cpus)/wordBits+1)
	for {
		select {
		case <-s.work:
			s.result <- visitAll(cpus, one, home)
		case <-s.quit:
			return
		}
	}
}

// allowed returns an error if a CPU that is online is not in mask.
func allowed(cpus []int, mask cpuMask) error {
	online, err := cpulist.Online(cpulist.Dir)
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if cpu < 0 {
			return fmt.Errorf("no such CPU: %d", cpu)
		}
		if slices.Contains(online, cpu) && !mask.has(cpu) {
			return fmt.Errorf("the process may not run on CPU %d (a CPU set of its cgroup, or taskset): %w", cpu, unix.EPERM)
		}
	}
	return nil
}

func visitAll(cpus []int, one, home cpuMask) error {
	online, err := cpulist.Online(cpulist.Dir)
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if !slices.Contains(online, cpu) { // as many of those that may have a ring some day
			continue
		}
		if err := visit(cpu, one); err != nil {
			return fmt.Errorf("running on CPU %d: %w", cpu, err)
		}
	}
	// So that waking up does not depend on the last CPU. If it fails, this sweep was complete all the same.
	affinity(unix.SYS_SCHED_SETAFFINITY, home)
	return nil
}

// visit runs on a CPU. One that is offline at any moment of the call has nothing running on it, and
// need not be visited.
func visit(cpu int, one cpuMask) error {
	clear(one)
	one[cpu/wordBits] = 1 << (cpu % wordBits)
	var err error
	for range 5 {
		_, err = affinity(unix.SYS_SCHED_SETAFFINITY, one)
		if err == nil {
			// The kernel moves the thread before the call returns, and moves it off again only if the CPU goes
			// offline, or somebody changes its affinity or CPU set.
			var here uint32
			if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&here)), 0, 0); errno != 0 {
				return errno
			}
			if int(here) == cpu {
				return nil
			}
			err = unix.EAGAIN
		}
		if err != unix.EINVAL && err != unix.EAGAIN {
			return err
		}
		online, offline := cpulist.Online(cpulist.Dir)
		if offline != nil {
			return offline
		}
		if !slices.Contains(online, cpu) {
			return nil
		}
		// It may have come online just now.
	}
	return fmt.Errorf("it is online, but the process may not run there, or not stay (a CPU set of its cgroup?): %w", err)
}

// wordBits is the size of C's long.
const wordBits = 8 * int(unsafe.Sizeof(uintptr(0)))

// cpuMask is a set of CPUs as the system calls have it, an array of longs.
type cpuMask []uintptr

func (m cpuMask) has(cpu int) bool {
	return cpu/wordBits < len(m) && m[cpu/wordBits]>>(cpu%wordBits)&1 != 0
}

// affinity calls sched_getaffinity, which returns how many bytes it has written, or
// sched_setaffinity. x/sys's functions would keep the Go scheduler from knowing that they may block.
func affinity(trap uintptr, m cpuMask) (int, error) {
	n, _, errno := unix.Syscall(trap, 0, uintptr(len(m)*wordBits/8), uintptr(unsafe.Pointer(unsafe.SliceData(m))))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
