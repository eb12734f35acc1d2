package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Job is the work of a process of the load until Stop. The load has its own processes, because
// programs do not trace the reader's process, and its CPU time must stay separate.
type Job struct {
	// Kind is
	//   - mix: a worker that makes system calls at Rate, sleeps, and wakes one on the second CPU;
	//   - hog: a thread that takes all the CPU time it gets;
	//   - burst: outputs on all CPUs at once, now and then, and nonstop for 20 ms of each second;
	//   - flow: outputs at Rate, from threads on their CPUs;
	//   - calls: Threads on each CPU make Syscall in groups of Group, with a Pause in between.
	Kind    string
	CPUs    []int
	Rate    int    // a second, of each mix or of a whole flow; 0: no limit
	Output  Output // of a flow; Count is not used
	Threads int
	Group   int // 0: only spin
	Pause   time.Duration
	Syscall uint64
	Seed    uint64
	Hotplug bool // CPUs go offline and come back: the kernel then moves threads elsewhere, for good
}

// jobEnv has a program that imports this package be a process of the load.
const jobEnv = "RINGFOLD_WORKLOAD"

func init() {
	text := os.Getenv(jobEnv)
	if text == "" {
		return
	}
	var j Job
	must(json.Unmarshal([]byte(text), &j))
	j.work()
	os.Exit(0)
}

// Processes is a load that runs.
type Processes []process

type process struct {
	job  Job
	cmd  *exec.Cmd
	life io.Closer // a pipe: the process ends when this end closes, even if its starter dies
}

// Start starts a process for each job, and returns when their threads run. prog is the program that
// bursts and flows run.
func Start(prog int, jobs ...Job) (all Processes, err error) {
	for _, j := range jobs {
		p, err := j.start(prog)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting the load: %w", err), all.Stop())
		}
		all = append(all, p)
	}
	return all, nil
}

func (j Job) start(prog int) (p process, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return p, err
	}
	cmd := exec.Command("/proc/self/exe")
	// No collector, as threads block in raw system calls, and a P for each of them. With the
	// race detector, a process would take a second to end.
	cmd.Env = append(os.Environ(), jobEnv+"="+string(text), "GOGC=off", "GODEBUG=asyncpreemptoff=1", "GORACE=atexit_sleep_ms=0",
		fmt.Sprintf("GOMAXPROCS=%d", max(8, len(j.CPUs)*max(1, j.Threads)+2)))
	cmd.Stderr = os.Stderr
	if j.runs() {
		fd, err := unix.FcntlInt(uintptr(prog), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return p, err
		}
		file := os.NewFile(uintptr(fd), "program")
		defer file.Close()
		cmd.ExtraFiles = []*os.File{file}
	}
	life, err := cmd.StdinPipe()
	if err != nil {
		return p, err
	}
	running, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	if err := cmd.Start(); err != nil {
		return p, err
	}
	io.ReadFull(running, make([]byte, 1)) // or it has ended, and Stop says why
	return process{j, cmd, life}, nil
}

// Stop ends the processes, and returns when no program that they ran is under way. It fails if one
// ended before.
func (all Processes) Stop() (errs error) {
	for _, p := range all {
		p.life.Close()
	}
	for _, p := range all {
		if p.cmd.ProcessState != nil {
			continue
		}
		if err := p.cmd.Wait(); err != nil {
			errs = errors.Join(errs, fmt.Errorf("load process %q: %w", p.job.Kind, err))
		}
	}
	return errs
}

const progFD = 3 // the first of exec.Cmd.ExtraFiles

func (j Job) runs() bool { return j.Kind == "burst" || j.Kind == "flow" }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// work is the process. Its threads make raw system calls, and are not preempted: Go's runtime would
// add system calls of its own.
func (j Job) work() {
	rnd := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(j.Seed, n)) }
	var running sync.WaitGroup
	on := func(cpu int, f func()) {
		running.Add(1)
		go func() {
			j.pin(cpu)
			running.Done()
			f()
		}()
	}
	switch j.Kind {
	case "mix":
		on(j.CPUs[0], func() { j.syscalls(rnd(1)) })
		on(j.CPUs[0], func() { j.naps(rnd(2)) })
		j.wakeEachOther(on, rnd(3))
	case "hog":
		go hog()
	case "burst":
		go j.bursts(rnd(1))
	case "flow":
		for _, cpu := range j.CPUs {
			on(cpu, func() { j.flow(cpu) })
		}
	case "calls":
		for _, cpu := range j.CPUs {
			for range j.Threads {
				on(cpu, j.calls)
			}
		}
	}
	running.Wait()
	os.Stdout.Write([]byte{0})
	io.Copy(io.Discard, os.Stdin)
}

// Pin keeps the goroutine on a thread of its own on that CPU, until it ends.
func Pin(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

func (j Job) pin(cpu int) {
	if err := Pin(cpu); !j.Hotplug { // else it may be offline
		must(err)
	}
}
