package source

import (
	"math/rand/v2"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"golang.org/x/sys/unix"
)

// families are the processes that start others, and what they start.
var families = []struct {
	comm  string
	files []string
}{
	{"bash", []string{"ls", "ps", "grep", "git", "date"}},
	{"make", []string{"gcc", "cc1", "as", "ld"}},
	{"cron", []string{"sh", "find", "gzip"}},
	{"python3", []string{"node", "curl", "jq"}},
}

// live starts all life.
func (s *Simulated) live() {
	for i, f := range families {
		s.all.Go(func() {
			a := &actor{Simulated: s, r: rand.New(rand.NewPCG(s.o.Seed, uint64(i))), next: time.Now()}
			a.pids = uint32(1000 + i) // each family has its own
			parent := a.newTask(f.comm)
			for a.start(parent, f.files[a.r.IntN(len(f.files))]) {
			}
		})
	}
}

type task struct {
	pid  uint32
	comm string
	cpu  int
}

// actor plays a process and its children, one thing after the other, on whichever CPUs.
type actor struct {
	*Simulated
	r    *rand.Rand
	pids uint32
	next time.Time // when the next thing happens
}

func (a *actor) newTask(comm string) task {
	t := task{a.pids, comm, a.r.IntN(a.o.CPUs)}
	a.pids += uint32(len(families))
	return t
}

// start lets a parent run a program to its end. It returns false when life ends.
func (a *actor) start(parent task, file string) bool {
	child := a.newTask(parent.comm)
	forked := a.do(parent, lifecycle.Event{Kind: lifecycle.Fork, ChildPID: child.pid, ChildTID: child.pid})
	child.comm = file
	e := lifecycle.Event{Kind: lifecycle.Exec}
	copy(e.FileBytes[:], "/usr/bin/"+file)
	return forked && a.do(child, e) && a.do(child, lifecycle.Event{Kind: lifecycle.Exit, Code: a.status()})
}

// status is how a process ends, as wait(2) has it.
func (a *actor) status() int32 {
	switch n := a.r.IntN(20); {
	case n == 0:
		return int32(unix.SIGKILL)
	case n < 3:
		return 1 << 8
	default:
		return 0
	}
}

// do waits for its time, and lets a task do something on its CPU.
func (a *actor) do(t task, e lifecycle.Event) bool {
	mean := float64(len(families)) / a.o.Rate * float64(time.Second)
	a.next = a.next.Add(time.Duration(mean * a.r.ExpFloat64()))
	// Whoever is late, as timers are, does not sleep, until the mean is right again.
	switch wait := time.Until(a.next); {
	case wait > 0:
		if !a.sleep(wait) {
			return false
		}
	case wait < -time.Second:
		a.next = time.Now() // this machine is too slow for it
	}
	select {
	case <-a.quit:
		return false
	default:
	}
	e.PID, e.TID = t.pid, t.pid
	copy(e.CommBytes[:len(e.CommBytes)-1], t.comm)
	a.output(t.cpu, a.r, &e)
	return true
}
