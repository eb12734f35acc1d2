package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// beat is how often a process is started on each CPU. All CPUs start at the
// same time: a bunch of interleaved events, then a pause in which one can read them.
const beat = 20 * time.Millisecond

// workload starts short-lived processes on CPUs, so that there is something to see.
type workload struct {
	ctx    context.Context
	end    context.CancelFunc // of what is followed, too
	all    sync.WaitGroup
	failed chan error // the first
}

// newWorkload prepares a workload, which also ends with ctx.
func newWorkload(ctx context.Context) *workload {
	w := &workload{failed: make(chan error, 1)}
	w.ctx, w.end = context.WithCancel(ctx)
	return w
}

// start begins with a process per CPU, and returns when each CPU has had one. If one cannot be started, that ends the workload.
func (w *workload) start(cpus []int) error {
	path, err := exec.LookPath("true")
	if err != nil {
		return fmt.Errorf("the demo runs the program \"true\": %w", err)
	}
	begin := time.Now()
	var first sync.WaitGroup
	defer first.Wait()
	for _, cpu := range cpus {
		first.Add(1)
		had := sync.OnceFunc(first.Done)
		w.all.Go(func() {
			defer had()
			if err := w.occupy(path, cpu, begin, had); err != nil {
				select {
				case w.failed <- fmt.Errorf("starting processes on CPU %d: %w", cpu, err):
				default:
				}
				w.end()
			}
		})
	}
	return nil
}

// stop starts no more processes, and returns when all are gone.
func (w *workload) stop() error {
	w.end()
	w.all.Wait()
	select {
	case err := <-w.failed:
		return err
	default:
		return nil
	}
}

// occupy runs processes on a CPU, and calls had when there was one.
func (w *workload) occupy(path string, cpu int, begin time.Time, had func()) error {
	// The thread is not given back, but ends with this goroutine: no other wants it.
	runtime.LockOSThread()
	var own, all unix.CPUSet
	own.Set(cpu)
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for first := true; ; first = false {
		switch err := unix.SchedSetaffinity(0, &own); {
		case errors.Is(err, unix.EINVAL):
			return nil // not ours to use: a container's cpuset leaves it out
		case err != nil:
			return err
		}
		// The parent forks on its CPU; the child may run on any, and so often runs before its parent goes on. Only the first stays on that CPU,
		// as on a busy machine the parent may have been moved away, too.
		if !first {
			if err := unix.SchedSetaffinity(0, &all); err != nil {
				return err
			}
		}
		cmd := exec.Command(path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // when we are killed
		if err := cmd.Start(); err != nil {
			return err
		}
		_ = cmd.Wait() // how it ended does not matter: Ctrl-C reaches it too
		had()
		select {
		case <-w.ctx.Done():
			return nil
		case <-time.After(beat - time.Since(begin)%beat):
		}
	}
}
