package lifecycle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// families are the processes that start others: every now and then a pipeline, or else a pool of threads.
var families = []struct {
	comm string
	jobs [][]string
}{
	{"bash", [][]string{{"ls"}, {"ps", "grep", "wc"}, {"git"}, {"cat", "sort", "uniq", "head"}, {"date"}}},
	{"make", [][]string{{"gcc"}, {"gcc"}, {"gcc", "tee"}, {"ar"}}},
	{"cron", [][]string{{"sh"}}},
	{"sshd", [][]string{{"bash"}, {"sftp-server"}}},
	{"python3", [][]string{{"node"}, {"curl", "jq"}}},
	{"java", nil},
}

// calls are the programs that others start, one after the other.
var calls = map[string][]string{
	"gcc":      {"cc1", "as", "collect2"},
	"collect2": {"ld"},
	"sh":       {"find", "gzip"},
	"bash":     {"id"},
	"git":      {"less"},
}

// task is a thread of a made-up process.
type task struct {
	pid, tid uint32
	comm     string
	cpu      int
}

// actor plays a process and its offspring, one thing after the other, on whichever CPUs.
type actor struct {
	*Simulation
	r    *rand.Rand // its own: what it does depends on the seed alone
	next time.Time  // when its next job begins
	pid  uint32     // of the next task
}

// live starts all life.
func (s *Simulation) live() {
	for i, f := range families {
		s.all.Go(func() {
			a := &actor{s, rand.New(rand.NewPCG(s.o.Seed, uint64(i))), time.Now(), 1000 + uint32(i)}
			head := a.newTask(f.comm)
			for a.spend(1); a.wait(); {
				if f.jobs == nil {
					a.threads(head)
				} else {
					a.run(head, f.jobs[a.r.IntN(len(f.jobs))]...)
				}
			}
		})
	}
}

// spend puts the next job off by what so many events take at the rate of the options.
func (a *actor) spend(events int) {
	mean := float64(len(families)) / a.o.Rate * float64(time.Second)
	for range events {
		a.next = a.next.Add(time.Duration(min(mean*a.r.ExpFloat64(), math.MaxInt64/1000)))
	}
}

// wait waits until it is time. It returns false when life ends.
func (a *actor) wait() bool {
	late := time.Since(a.next)
	if late > time.Second {
		a.next = time.Now() // this machine is too slow for the rate
	}
	return a.sleep(-late)
}

func (a *actor) newTask(comm string) task {
	pid := a.pid
	a.pid += uint32(len(families))
	return task{pid, pid, comm, a.r.IntN(a.o.CPUs)}
}

// do lets a task do something on its CPU, and a little time pass, if there is time.
func (a *actor) do(t task, e Event) {
	a.output(t.cpu, a.r, by(t, e))
	if short := time.Duration(a.r.IntN(300)) * time.Microsecond; time.Until(a.next) > 0 {
		a.sleep(short)
	}
}

// run lets a parent run a pipeline, to its end.
func (a *actor) run(parent task, files ...string) {
	a.spend(3 * len(files))
	var children []task
	for range files {
		child := a.newTask(parent.comm)
		a.do(parent, Event{Kind: Fork, ChildPID: child.pid, ChildTID: child.tid})
		children = append(children, child)
	}
	for _, i := range a.r.Perm(len(files)) {
		children[i].comm = files[i]
		e := Event{Kind: Exec}
		copy(e.FileBytes[:], "/usr/bin/"+files[i])
		a.do(children[i], e)
	}
	for i, child := range children {
		for _, file := range calls[files[i]] {
			a.run(child, file)
		}
	}
	for _, i := range a.r.Perm(len(files)) {
		a.do(children[i], Event{Kind: Exit, Code: a.status()})
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
	var forks []Event
	pool := make([]task, 40)
	if a.spend(2 * len(pool)); !a.wait() { // first, as it is so much
		return
	}
	for i := range pool {
		pool[i] = a.newTask(fmt.Sprintf("pool-1-thr-%d", i+1))
		pool[i].pid = t.pid
		forks = append(forks, by(t, Event{Kind: Fork, ChildPID: t.pid, ChildTID: pool[i].tid}))
	}
	a.output(t.cpu, a.r, forks...)
	a.sleep(20 * time.Millisecond)
	for _, thread := range pool {
		a.do(thread, Event{Kind: Exit})
	}
}

// by is an event of a task.
func by(t task, e Event) Event {
	e.PID, e.TID = t.pid, t.tid
	copy(e.CommBytes[:len(e.CommBytes)-1], t.comm)
	return e
}
