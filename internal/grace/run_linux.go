package grace

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/ringfold/ringfold/internal/bpf"
	"golang.org/x/sys/unix"
)

// run is a test run on its own thread.
type run struct {
	over atomic.Bool
	err  chan error
}

// startRun starts bpf.ProgTestRun on a packet of this size, and does not wait for it. It runs on
// another CPU than this, if the process's cpuset has one: preferably one that the thread may run
// on.
func startRun(progFD, packet int) *run {
	r := &run{err: make(chan error, 1)}
	others := otherCPUs()
	go func() {
		defer onCPUs(&others)() // or where it is, if the cpuset has one CPU
		_, err := bpf.ProgTestRun(progFD, make([]byte, packet), nil, -1)
		r.over.Store(true)
		r.err <- err
	}()
	return r
}

// onCPUs locks the calling goroutine to its thread and moves that to other CPUs, if it can, until
// the function that it returns is called. The thread must not end instead, as one that stays locked
// does: children that the program has started on it with a Pdeathsig would get that signal.
func onCPUs(set *unix.CPUSet) (back func()) {
	runtime.LockOSThread()
	var before unix.CPUSet
	moved := unix.SchedGetaffinity(0, &before) == nil && unix.SchedSetaffinity(0, set) == nil
	return func() {
		if moved {
			unix.SchedSetaffinity(0, &before)
		}
		runtime.UnlockOSThread()
	}
}

// otherCPUs is where the calling thread may run, without the CPU where it runs. If that leaves
// none, it is all other CPUs: the thread may have been confined to one.
func otherCPUs() (set unix.CPUSet) {
	var cpu uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0) // the kernel stores it during the call
	if unix.SchedGetaffinity(0, &set) == nil {                            // fails with over a thousand CPUs
		if set.Clear(int(cpu)); set.Count() > 0 {
			return set
		}
	}
	for i := range set {
		set[i] = ^set[i]
	}
	set.Clear(int(cpu))
	return set
}

// ended reports whether the run has ended, or failed.
func (r *run) ended() bool { return r.over.Load() }

// join blocks until the run has ended. Call it once.
func (r *run) join() error { return <-r.err }
