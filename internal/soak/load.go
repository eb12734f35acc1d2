//go:build linux && cgo

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// loadConfig is what is to run next to the reader, in processes of their own: what the reader's does
// is not traced, and its CPU time is its own.
type loadConfig struct {
	Workers, Hogs, Rate int
	Bursts              bool
	Hotplug             bool // CPUs go offline and come back
}

// job is what one process of the load does.
type job struct {
	Kind    string // "mix", "hog" or "burst"
	CPUs    []int  // mix: its own, and the next worker's. Others: all
	Rate    int
	Seed    uint64
	Hotplug bool
}

// jobEnv tells a process that it is one of the load.
const jobEnv = "RINGFOLD_SOAK_JOB"

// workerEnv keeps the collector away from threads that block in raw system calls, and gives each its
// own processor of Go's.
var workerEnv = []string{"GOGC=off", "GOMAXPROCS=8", "GODEBUG=asyncpreemptoff=1"}

type load struct{ workers []worker }

type worker struct {
	cmd  *exec.Cmd
	life io.Closer // a pipe: the worker ends when the other end is closed, whatever happens to us
	job  job
}

// startLoad starts the processes. burst is the program that they may run.
func startLoad(c loadConfig, cpus []int, burst int) (*load, error) {
	var jobs []job
	for i := range c.Workers {
		jobs = append(jobs, job{Kind: "mix", CPUs: []int{cpus[i%len(cpus)], cpus[(i+1)%len(cpus)]}, Rate: c.Rate})
	}
	for range c.Hogs {
		jobs = append(jobs, job{Kind: "hog", CPUs: cpus})
	}
	if c.Bursts {
		jobs = append(jobs, job{Kind: "burst", CPUs: cpus})
	}
	l := &load{}
	for i, j := range jobs {
		j.Seed, j.Hotplug = uint64(i+1), c.Hotplug
		if err := l.start(j, burst); err != nil {
			l.stop()
			return nil, fmt.Errorf("starting the load: %w", err)
		}
	}
	return l, nil
}

func (l *load) start(j job, burst int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(uintptr(burst), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	prog := os.NewFile(uintptr(fd), "burst")
	defer prog.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	cmd.Env = append(cmd.Env, workerEnv...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{prog}
	life, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	l.workers = append(l.workers, worker{cmd, life, j})
	return nil
}

// stop ends the load. It fails if a process has ended before.
func (l *load) stop() (errs error) {
	for _, w := range l.workers {
		w.life.Close()
	}
	for _, w := range l.workers {
		if err := w.cmd.Wait(); err != nil {
			errs = errors.Join(errs, fmt.Errorf("load process %q: %w", w.job.Kind, err))
		}
	}
	l.workers = nil
	return errs
}
