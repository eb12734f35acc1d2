package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"golang.org/x/sys/unix"
)

// task is a thread of a simulated process.
type task struct {
	pid, tid uint32
	comm     string
	cpu      int
}

// families are the processes that start others: every now and then a pipeline.
var families = []struct {
	comm  string
	every time.Duration // on average
	jobs  [][]string
}{
	{"bash", 80 * time.Millisecond, [][]string{{"ls"}, {"ps", "grep", "wc"}, {"git"}, {"cat", "sort", "uniq", "head"}, {"date"}}},
	{"make", 60 * time.Millisecond, [][]string{{"gcc"}, {"gcc"}, {"gcc", "tee"}, {"ar"}}},
	{"cron", 120 * time.Millisecond, [][]string{{"sh"}}},
	{"sshd", 150 * time.Millisecond, [][]string{{"bash"}, {"sftp-server"}}},
	{"python3", 100 * time.Millisecond, [][]string{{"node"}, {"curl", "jq"}}},
}

// calls are the programs that start others, one after the other.
var calls = map[string][]string{
	"gcc":      {"cc1", "as", "collect2"},
	"collect2": {"ld"},
	"sh":       {"find", "gzip"},
	"bash":     {"id"},
	"git":      {"less"},
}

// firstPID is above those of the kernel's threads.
const firstPID = 1000

// live starts all life.
func (s *simulation) live() {
	for i, f := range families {
		s.all.Go(func() {
			a := s.newActor(i)
			head := a.newTask(f.comm)
			for s.pause(a.r, f.every) {
				a.start(head, f.jobs[a.r.IntN(len(f.jobs))]...)
			}
		})
	}
	s.all.Go(func() {
		a := s.newActor(len(families))
		for s.pause(a.r, 1500*time.Millisecond) {
			a.threads(a.newTask("java"))
		}
	})
}

// actor plays a process and its offspring, one thing after the other, on whichever CPUs.
type actor struct {
	*simulation
	r       *rand.Rand
	pid     uint32 // the next one
	stepPID uint32 // so that each actor has its own, and they are the same in each run
}

func (s *simulation) newActor(part int) *actor {
	return &actor{simulation: s, r: s.random(part), pid: firstPID + uint32(part), stepPID: uint32(len(families)) + 1}
}

func (a *actor) newTask(comm string) task {
	pid := a.pid
	a.pid += a.stepPID
	return task{pid, pid, comm, a.r.IntN(len(a.cpus))}
}

// do lets a task do something on its CPU, and a little time pass.
func (a *actor) do(t task, e lifecycle.Event) {
	a.cpus[t.cpu].output(e)
	a.pause(a.r, 150*time.Microsecond)
}

// start lets a parent run a pipeline, to its end.
func (a *actor) start(parent task, files ...string) {
	var children []task
	for range files {
		child := a.newTask(parent.comm)
		a.do(parent, fork(parent, child))
		children = append(children, child)
	}
	for _, i := range a.r.Perm(len(children)) {
		children[i].comm = files[i]
		a.do(children[i], execOf(children[i], "/usr/bin/"+files[i]))
	}
	for i, child := range children {
		for _, file := range calls[files[i]] {
			a.start(child, file)
		}
	}
	for _, i := range a.r.Perm(len(children)) {
		a.do(children[i], exit(children[i], a.status()))
	}
}

// status is how a process ends, as wait(2) has it.
func (a *actor) status() int32 {
	switch n := a.r.IntN(40); {
	case n == 0:
		return int32(unix.SIGSEGV) | 1<<7 // core dumped
	case n == 1:
		return int32(unix.SIGKILL)
	case n < 5:
		return 1 << 8
	default:
		return 0
	}
}

// threads starts a pool of threads at once: more than a small ring has room for. They end one by one.
func (a *actor) threads(t task) {
	var started []lifecycle.Event
	pool := make([]task, 40)
	for i := range pool {
		pool[i] = a.newTask(fmt.Sprintf("pool-1-thr-%d", i+1))
		pool[i].pid = t.pid
		started = append(started, fork(t, pool[i]))
	}
	a.cpus[t.cpu].burst(started)
	a.pause(a.r, 20*time.Millisecond)
	for _, thread := range pool {
		a.do(thread, exit(thread, 0))
	}
}

// What tasks do, as lifecycle.bpf.c reports it.

func by(t task, k lifecycle.Kind) lifecycle.Event {
	e := lifecycle.Event{Kind: k, PID: t.pid, TID: t.tid}
	copy(e.CommBytes[:len(e.CommBytes)-1], t.comm)
	return e
}

func fork(t, child task) lifecycle.Event {
	e := by(t, lifecycle.Fork)
	e.ChildPID, e.ChildTID = child.pid, child.tid
	return e
}

func execOf(t task, file string) lifecycle.Event {
	e := by(t, lifecycle.Exec)
	copy(e.FileBytes[:len(e.FileBytes)-1], file)
	return e
}

func exit(t task, status int32) lifecycle.Event {
	e := by(t, lifecycle.Exit)
	e.Code = status
	return e
}
