package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

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
	if !s.sched {
		return
	}
	for _, c := range s.cpus {
		s.all.Go(func() {
			r := s.random(1000 + c.id)
			for s.pause(r, 2*time.Millisecond) {
				c.run(c.kthread(r))
			}
		})
	}
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
func (a *actor) do(t task, e payload) {
	a.cpus[t.cpu].run(t, e)
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
	var started []payload
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

// idle is what runs when nothing does.
func (c *simulatedCPU) idle() task { return task{0, 0, fmt.Sprintf("swapper/%d", c.id), c.id} }

// kthread is one of the kernel's threads.
func (c *simulatedCPU) kthread(r *rand.Rand) task {
	pid := uint32(20 + 10*c.id)
	switch r.IntN(3) {
	case 0:
		return task{pid + 2, pid + 2, fmt.Sprintf("migration/%d", c.id), c.id}
	case 1:
		return task{pid, pid, fmt.Sprintf("ksoftirqd/%d", c.id), c.id}
	default:
		return task{pid + 1, pid + 1, fmt.Sprintf("kworker/%d:1", c.id), c.id}
	}
}

// What tasks do, as ordered.bpf.c reports it.

func by(t task, k kind) payload {
	e := payload{Kind: k, PID: t.pid, TID: t.tid}
	copy(e.Comm[:len(e.Comm)-1], t.comm)
	return e
}

func with(e payload, other task) payload {
	e.OtherPID, e.OtherTID = other.pid, other.tid
	return e
}

func detailed(e payload, detail string) payload {
	copy(e.Detail[:len(e.Detail)-1], detail)
	return e
}

func fork(t, child task) payload { return with(by(t, kindFork), child) }

func execOf(t task, file string) payload { return detailed(by(t, kindExec), file) }

func exit(t task, status int32) payload {
	e := by(t, kindExit)
	e.Code = status
	return e
}

func wakeup(t, woken task) payload { return detailed(with(by(t, kindWakeup), woken), woken.comm) }

func switchTo(t, next task) payload { return detailed(with(by(t, kindSwitch), next), next.comm) }
