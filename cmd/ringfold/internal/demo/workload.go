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

// workload starts short-lived processes on each CPU, so that there is something to see.
type workload struct {
	path string // of the program that they run
	ctx  context.Context
	end  context.CancelCauseFunc // with what failed first, or nil
	all  sync.WaitGroup
}

// beat is how often a process is started on each CPU. All CPUs start at the
// same time: a bunch of interleaved events, then a pause in which one can read them.
const beat = 20 * time.Millisecond

// newWorkload returns nil if none is wanted.
func newWorkload(wanted bool) (*workload, error) {
	if !wanted {
		return nil, nil
	}
	path, err := exec.LookPath("true")
	if err != nil {
		return nil, fmt.Errorf("the demo runs the program \"true\": %w", err)
	}
	w := &workload{path: path}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	return w, nil
}

// start begins with a process per CPU, and returns when each CPU has had one. If one cannot be started, failed is called, and stop says why.
func (w *workload) start(cpus []int, failed func()) {
	if w == nil {
		return
	}
	begin := time.Now()
	var first sync.WaitGroup
	defer first.Wait()
	for _, cpu := range cpus {
		first.Add(1)
		had := sync.OnceFunc(first.Done)
		w.all.Go(func() {
			defer had()
			if err := w.occupy(cpu, begin, had); err != nil {
				w.end(fmt.Errorf("starting processes on CPU %d: %w", cpu, err))
				failed()
			}
		})
	}
}

// stop starts no more processes, and returns when all are gone.
func (w *workload) stop() error {
	if w == nil {
		return nil
	}
	w.end(nil)
	w.all.Wait()
	if err := context.Cause(w.ctx); err != context.Canceled {
		return err
	}
	return nil
}

// occupy runs processes on a CPU, and calls had when there was one.
func (w *workload) occupy(cpu int, begin time.Time, had func()) error {
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
		cmd := exec.Command(w.path)
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
