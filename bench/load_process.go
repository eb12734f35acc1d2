package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// load in a process of its own: so the CPU time of this one is the reader's.

// flow is what such a process outputs.
type flow struct {
	CPUs []int
	Size int
	Rate int // events per second on all CPUs together; 0 is as many as can be
}

// flowEnv tells a process that it is one, instead of a run of benchmarks.
const flowEnv = "RINGFOLD_BENCH_FLOW"

func init() {
	text := os.Getenv(flowEnv)
	if text == "" {
		return
	}
	var f flow
	err := json.Unmarshal([]byte(text), &f)
	if err == nil {
		err = f.run(3) // the first of exec.Cmd.ExtraFiles
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: load process:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run outputs until standard input ends.
func (f flow) run(prog int) error {
	var stop atomic.Bool
	var all sync.WaitGroup
	errs := make(chan error, len(f.CPUs))
	for _, cpu := range f.CPUs {
		all.Go(func() { errs <- f.runOn(prog, cpu, &stop) })
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	stop.Store(true)
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// runOn outputs on one CPU, from a thread on that CPU: so no other one is interrupted, and the time goes to
// this process.
func (f flow) runOn(prog, cpu int, stop *atomic.Bool) error {
	if _, err := pin(cpu); err != nil {
		return err
	}
	// A program is not preempted while it runs, so runs are short: 256 events with a wakeup each take 1 ms.
	const most = 256
	const tick = time.Millisecond
	if f.Rate == 0 {
		for !stop.Load() {
			if err := emit(prog, cpu, most, f.Size); err != nil {
				return err
			}
		}
		return nil
	}
	done, begin := 0, time.Now()
	for !stop.Load() {
		due := int(time.Since(begin).Seconds()*float64(f.Rate)/float64(len(f.CPUs))) - done
		for n := due; n > 0; n -= most {
			if err := emit(prog, cpu, min(n, most), f.Size); err != nil {
				return err
			}
		}
		done += max(due, 0)
		nanosleep(tick - time.Since(begin)%tick)
	}
	return nil
}

// start starts a process that runs a collection's program. stop ends it; from then on the programs'
// counters stand still.
func (f flow) start(c *collection) (stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(c.prog), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	prog := os.NewFile(uintptr(fd), "program")
	defer prog.Close()
	cmd := exec.Command(self)
	// A P for each thread that is in a system call, one for main, and no collector in between.
	cmd.Env = append(os.Environ(), flowEnv+"="+string(text), "GOGC=off", fmt.Sprintf("GOMAXPROCS=%d", len(f.CPUs)+2),
		"GORACE=atexit_sleep_ms=0") // with the race detector it would take a second to end
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{prog}
	stdin, err := cmd.StdinPipe() // it ends when we do, whatever happens
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the load: %w", err)
	}
	var once sync.Once
	var result error
	return func() error {
		once.Do(func() {
			stdin.Close()
			if err := cmd.Wait(); err != nil {
				result = fmt.Errorf("load process: %w", err)
			}
		})
		return result
	}, nil
}

// cpuTime is what this process has used, of all its threads.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
