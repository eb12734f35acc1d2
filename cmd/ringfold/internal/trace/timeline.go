package trace

import (
	"fmt"
	"math"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// timeline makes tracks out of events: for each CPU, one of threads that run there, with what they did, and two of counters.
type timeline struct {
	trace *trace
	start uint64 // ns of CLOCK_MONOTONIC
	end   uint64 // what comes later is left out
	cpus  map[int]*cpu
	sum   *summary

	arrows   uint64            // so far
	children map[uint32]uint64 // arrows to threads that have not run yet, by tid
}

// cpu is what is known of a CPU at some time.
type cpu struct {
	slice bool   // one has begun and not ended
	known bool   // who runs
	tid   uint32 // of that thread
	since uint64 // if not, since when that is
}

// Processes, as the trace has them. Each CPU is a thread of the first, with a number that is not 0: viewers take that for idle.
const (
	processCPUs = iota + 1
	processRings
)

// newTimeline begins with the tracks of these CPUs, which are in order.
func newTimeline(t *trace, start uint64, cpus []int, sum *summary) (*timeline, error) {
	l := &timeline{trace: t, start: start, end: math.MaxUint64, cpus: map[int]*cpu{}, sum: sum, children: map[uint32]uint64{}}
	if err := t.process(processCPUs, "CPUs"); err != nil {
		return nil, err
	}
	if err := t.process(processRings, "rings"); err != nil {
		return nil, err
	}
	for _, n := range cpus {
		if _, err := l.cpu(n); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// within reports whether a time is of the recording.
func (l *timeline) within(time uint64) bool { return l.start <= time && time <= l.end }

// cpu finds a CPU's state. One that comes while we record gets a track then.
func (l *timeline) cpu(n int) (*cpu, error) {
	if c := l.cpus[n]; c != nil {
		return c, nil
	}
	c := &cpu{since: l.start}
	l.cpus[n] = c
	name := fmt.Sprintf("CPU %d", n)
	if n < 0 {
		name = "CPU not known"
	}
	return c, l.trace.thread(processCPUs, track(n), name)
}

// track is the number of a CPU's: viewers take 0 for idle. An event of a ring buffer need not say its CPU.
func track(n int) int {
	if n < 0 {
		return 1 << 20
	}
	return n + 1
}

// switched ends the slice of the one that ran, and begins that of the next.
func (l *timeline) switched(n int, time uint64, from, to thread, preempted bool) error {
	c, err := l.cpu(n)
	if err != nil {
		return err
	}
	if !c.known { // now it is, and who ran before
		if err := l.begin(c, n, c.since, from); err != nil {
			return err
		}
	}
	var args map[string]any
	switch {
	case c.tid != from.TID: // a switch before this one was not seen
		args = unseen
		l.missed()
	case preempted:
		args = map[string]any{"preempted": true}
	}
	if err := l.stop(c, n, time, args); err != nil {
		return err
	}
	if err := l.begin(c, n, time, to); err != nil {
		return err
	}
	arrow, started := l.children[to.TID]
	if !started {
		return nil
	}
	delete(l.children, to.TID)
	return l.trace.arrive(track(n), l.since(time), arrow)
}

// missed counts a switch that was not seen. It may have been the first to a child: no arrow goes to a later one.
func (l *timeline) missed() {
	l.sum.Unseen++
	clear(l.children)
}

func (l *timeline) begin(c *cpu, n int, time uint64, t thread) error {
	c.known, c.tid = true, t.TID
	if t.TID == 0 {
		return nil // idle
	}
	c.slice = true
	l.sum.Slices++
	return l.trace.begin(track(n), l.since(time), "running", t.name(), map[string]any{"pid": t.PID, "tid": t.TID})
}

// unseen is of slices that have ended at some time before.
var unseen = map[string]any{"end": "not known"}

func (l *timeline) stop(c *cpu, n int, time uint64, args map[string]any) error {
	if !c.slice {
		return nil
	}
	c.slice = false
	return l.trace.end(track(n), l.since(time), args)
}

// lost shows where events of a CPU are missing: who ran there in this time is not known.
func (l *timeline) lost(n int, after, before, count uint64) error {
	c, err := l.cpu(n)
	if err != nil {
		return err
	}
	l.sum.Lost += count
	clear(l.children) // they may have run
	after = max(after, l.start)
	if err := l.stop(c, n, after, unseen); err != nil {
		return err
	}
	c.known, c.since = false, before
	if err := l.trace.begin(track(n), l.since(after), "lost", fmt.Sprintf("%d lost", count), map[string]any{"events": count}); err != nil {
		return err
	}
	return l.trace.end(track(n), l.since(before), nil)
}

func (l *timeline) forked(n int, time uint64, parent, child thread) error {
	l.sum.Forks++
	name := "fork"
	if parent.PID == child.PID {
		name = "clone" // a thread
	}
	if err := l.instant(n, time, parent, name, map[string]any{"child_pid": child.PID, "child_tid": child.TID}); err != nil {
		return err
	}
	l.arrows++
	l.children[child.TID] = l.arrows
	return l.trace.leave(track(n), l.since(time), l.arrows)
}

func (l *timeline) executed(n int, time uint64, t thread, file string) error {
	l.sum.Execs++
	return l.instant(n, time, t, "exec", map[string]any{"file": file})
}

func (l *timeline) exited(n int, time uint64, t thread, code int32) error {
	l.sum.Exits++
	args := map[string]any{}
	if status := unix.WaitStatus(code); status.Signaled() {
		args["signal"] = unix.SignalName(status.Signal())
	} else {
		args["status"] = status.ExitStatus()
	}
	return l.instant(n, time, t, "exit", args)
}

// instant is of something that a thread does.
func (l *timeline) instant(n int, time uint64, t thread, what string, args map[string]any) error {
	c, err := l.cpu(n)
	if err != nil {
		return err
	}
	if c.known && c.tid != t.TID { // a switch was not seen
		l.missed()
		if err := l.stop(c, n, time, unseen); err != nil {
			return err
		}
		c.known, c.since = false, time
	}
	if !c.known { // it runs there, and has so far
		if err := l.begin(c, n, c.since, t); err != nil {
			return err
		}
	}
	args["pid"], args["tid"] = t.PID, t.TID
	return l.trace.instant(track(n), l.since(time), "process", what+" "+t.name(), args)
}

// counters shows how full rings are, and what they have lost.
func (l *timeline) counters(label string, time uint64, rings []perfbuf.RingStats) error {
	if label != "" {
		label += " "
	}
	for _, r := range rings {
		if err := l.trace.counter(processRings, l.since(time), fmt.Sprintf("%sring of CPU %d", label, r.CPU), "bytes used", uint64(r.Used)); err != nil {
			return err
		}
		if err := l.trace.counter(processRings, l.since(time), fmt.Sprintf("%slost on CPU %d", label, r.CPU), "events", r.Lost); err != nil {
			return err
		}
	}
	return nil
}

// finish ends what still runs.
func (l *timeline) finish(time uint64) error {
	for n, c := range l.cpus {
		if err := l.stop(c, n, time, map[string]any{"end": "of the recording"}); err != nil {
			return err
		}
	}
	return nil
}

// since is a time as the trace has it: 0 is the start of the recording.
func (l *timeline) since(time uint64) uint64 { return max(time, l.start) - l.start }
