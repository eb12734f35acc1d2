package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/aquasecurity/libbpfgo"
)

// workload is another process, which makes the system calls that are events: so that its CPU time is not that of the way of
// reading. What it does is in calls.go.
type workload struct {
	config
	ctx     context.Context // its end ends the workload, if the duration does not
	closing chan struct{}   // ends it too, and nobody reads any more
	close   func()          // ends the process, whatever it does

	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
	outputs *libbpfgo.BPFMap

	began time.Time     // start
	cpu   time.Duration // that this process had used then
	wait  sync.WaitGroup

	// As of the end.
	lasted time.Duration
	total  uint64
	err    error
}

// newWorkload starts the process, which does nothing yet.
func newWorkload(ctx context.Context, c config) (w *workload, err error) {
	w = &workload{config: c, ctx: ctx, closing: make(chan struct{}), cmd: exec.Command("/proc/self/exe")}
	w.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", callsEnv, c.rate))
	w.cmd.Stderr = os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which then ends that one
	if w.orders, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.answers = bufio.NewReader(answers)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the workload: %w", err)
	}
	w.close = sync.OnceFunc(func() {
		close(w.closing)
		w.wait.Wait()
		w.orders.Close() // it ends when that does
		_ = w.cmd.Wait() // what was wrong has been told
	})
	return w, nil
}

func (w *workload) pid() int { return w.cmd.Process.Pid }

// filter has the BPF program tell of the workload.
func (w *workload) filter() filter { return newFilter(w.pid()) }

// order has the process do something, and returns when it has.
func (w *workload) order(what string) error {
	if _, err := fmt.Fprintln(w.orders, what); err != nil {
		return fmt.Errorf("the workload's process is gone: %w", err)
	}
	if _, err := w.answers.ReadString('\n'); err != nil {
		return fmt.Errorf("the workload's process is gone: %w", err)
	}
	return nil
}

// start starts the workload, and measuring. The context that it returns is done when the workload has ended: see attempted. Until
// then, or close, it uses the module.
func (w *workload) start(module *libbpfgo.Module) (context.Context, error) {
	var err error
	if w.outputs, err = module.GetMap("outputs"); err != nil {
		return nil, err
	}
	if err := w.order("once"); err != nil {
		return nil, err
	}
	if n, _, err := w.output(); err != nil {
		return nil, err
	} else if n == 0 {
		return nil, fmt.Errorf("the BPF program sees no system call of process %d: in a container, run this in the host's pid namespace (docker run --pid=host)", w.pid())
	}
	w.began, w.cpu = time.Now(), cpuTime()
	if err := w.order("start"); err != nil {
		return nil, err
	}
	running, ended := context.WithCancel(context.Background())
	w.wait.Go(func() {
		defer ended()
		select {
		case <-time.After(w.duration):
		case <-w.ctx.Done():
		case <-w.closing:
		}
		w.total, w.err = w.end()
		w.lasted = time.Since(w.began)
	})
	return running, nil
}

// end ends the workload, and returns how many outputs were attempted.
func (w *workload) end() (total uint64, err error) {
	if err := w.order("stop"); err != nil {
		return 0, err
	}
	for {
		total, last, err := w.output()
		if err != nil || last == nil {
			return total, err
		}
		if last != syscall.ENOSPC {
			return 0, fmt.Errorf("the BPF program's output failed: %w", last)
		}
		select {
		case <-w.closing:
			return 0, errors.New("the workload was closed while a ring was full")
		default:
		}
		// A ring was full at last. The kernel tells how many events it had no room for with the next one for which it has.
		if err := w.order("once"); err != nil {
			return 0, err
		}
	}
}

// attempted is how many outputs the BPF program has attempted. It is for when the workload has ended.
func (w *workload) attempted() (uint64, error) { return w.total, w.err }

// output returns how many outputs were attempted, and why the last one on a CPU failed, if it did.
func (w *workload) output() (attempted uint64, last, err error) {
	key := uint32(0)
	b, err := w.outputs.GetValue(unsafe.Pointer(&key))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the BPF program's counts: %w", err)
	}
	for ; len(b) > 0; b = b[16:] { // struct outputs of callbacks.bpf.c, for each CPU
		attempted += binary.NativeEndian.Uint64(b)
		if e := int64(binary.NativeEndian.Uint64(b[8:])); e != 0 {
			last = syscall.Errno(-e)
		}
	}
	return attempted, last, nil
}
