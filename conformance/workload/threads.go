package workload

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Threads are what keeps CPUs busy: so many on each CPU. They make system calls in groups that sources output at (Source.Attach), and
// sleep for Pause in between; without Pause they never rest. Without groups they only spin.
type Threads struct {
	CPUs   []int
	OnEach int
	Group  int
	Pause  time.Duration

	Number int // of the system call; set by Start
}

// threadsEnv has this program be a process of such threads. They have one for themselves, as Go could not stop the world beside threads
// that compete for CPUs.
const threadsEnv = "CONFORMANCE_THREADS"

func init() {
	if spec := os.Getenv(threadsEnv); spec != "" {
		var t Threads
		if err := json.Unmarshal([]byte(spec), &t); err != nil {
			panic(err)
		}
		t.work()
		os.Exit(0)
	}
}

// Start starts the threads, until stop. They run when it returns.
func (t Threads) Start() (stop func(), err error) {
	t.Number = syscallNumber
	spec, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), threadsEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	io.ReadFull(stdout, make([]byte, 1)) // or it has ended, and Wait says why
	return sync.OnceFunc(func() {
		stdin.Close()
		cmd.Wait()
	}), nil
}

// work is the other process.
func (t Threads) work() {
	runtime.GOMAXPROCS(len(t.CPUs)*t.OnEach + 1)
	var all sync.WaitGroup
	for _, cpu := range t.CPUs {
		for range t.OnEach {
			all.Add(1)
			go t.run(cpu, all.Done)
		}
	}
	all.Wait()
	os.Stdout.Write([]byte{0})
	io.Copy(io.Discard, os.Stdin)
}

func (t Threads) run(cpu int, begun func()) {
	Pin(cpu)
	begun()
	for {
		for range t.Group {
			unix.RawSyscall(uintptr(t.Number), 0, 0, 0)
		}
		if t.Pause > 0 {
			time.Sleep(t.Pause)
		}
	}
}

// Pin keeps the goroutine on a thread of its own on that CPU, until it ends.
func Pin(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set) // it may just have gone offline
}
