package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// timeline makes tracks out of events: for each CPU, one of the threads that run there, with what they do, and two of counters.
type timeline struct {
	trace *trace
	start uint64 // ns of CLOCK_MONOTONIC
	end   uint64 // events after it are left out
	cpus  map[int]*cpu
	hosts []string // of a fleet, in the order in which they came
	sum   summary

	arrows   uint64            // so far
	children map[uint32]uint64 // arrows to threads that have not run yet, by tid
}

// cpu is the state of a CPU at some time.
type cpu struct {
	slice bool   // one has begun and not ended
	known bool   // which thread runs
	tid   uint32 // of that thread
	since uint64 // if not known: from this time on
}

// Processes of the trace. Each CPU is a thread of the first.
const (
	processCPUs = iota + 1
	processRings
)

// newTimeline begins with the tracks of these CPUs, which are in order.
func newTimeline(w io.Writer, start uint64, cpus []int) *timeline {
	l := &timeline{trace: newTrace(w), start: start, end: math.MaxUint64, cpus: map[int]*cpu{}, children: map[uint32]uint64{}}
	l.sum.CPUs = len(cpus)
	l.trace.process(processCPUs, "CPUs")
	l.trace.process(processRings, "rings")
	for _, n := range cpus {
		l.cpu(n)
	}
	return l
}

// within reports whether a time is of the recording.
func (l *timeline) within(time uint64) bool { return l.start <= time && time <= l.end }

// micros is a time of the trace: 0 is the start of the recording.
func (l *timeline) micros(time uint64) float64 { return float64(max(time, l.start)-l.start) / 1000 }

// cpu finds a CPU's state. One that comes online meanwhile gets a track then.
func (l *timeline) cpu(n int) *cpu {
	c := l.cpus[n]
	if c == nil {
		c = &cpu{since: l.start}
		l.cpus[n] = c
		l.trace.thread(processCPUs, track(n), l.title(n))
	}
	return c
}

// title is that of a CPU's track.
func (l *timeline) title(n int) string {
	host := ""
	if i := n / perHost; i > 0 {
		host, n = l.hosts[i-1]+" ", n%perHost-1
	}
	if n < 0 {
		return host + "CPU not known"
	}
	return fmt.Sprintf("%sCPU %d", host, n)
}

// perHost is more CPUs than a host has.
const perHost = 1 << 16

// host is the number that stands for a host's CPU.
func (l *timeline) host(name string, cpu int) int {
	i := slices.Index(l.hosts, name)
	if i < 0 {
		i = len(l.hosts)
		l.hosts = append(l.hosts, name)
	}
	return (i+1)*perHost + cpu + 1
}

// track is the number of a CPU's thread: viewers take 0 for idle. An event of a ring buffer may have no CPU.
func track(n int) int {
	if n < 0 {
		return 1 << 20
	}
	return n + 1
}

// write puts an event onto the track of a CPU.
func (l *timeline) write(n int, time uint64, e event) {
	e.Process, e.Thread, e.Time = processCPUs, track(n), l.micros(time)
	l.trace.write(e)
}

// switched ends the slice of one thread, and begins that of the next.
func (l *timeline) switched(n int, time uint64, from, to thread, preempted bool) {
	c := l.cpu(n)
	if !c.known { // now it is, so from ran before
		l.begin(c, n, c.since, from)
	}
	var args any
	switch {
	case c.tid != from.TID: // a switch before this one was not seen
		args = unseen
		l.missed()
	case preempted:
		args = map[string]any{"preempted": true}
	}
	l.stop(c, n, time, args)
	l.begin(c, n, time, to)
	if arrow, started := l.children[to.TID]; started {
		delete(l.children, to.TID)
		l.write(n, time, event{Phase: "f", Category: "process", Name: "start", ID: arrow, Bind: "e"})
	}
}

// missed counts a switch that was not seen. It may have been the first to a child: no arrow goes to a later one.
func (l *timeline) missed() {
	l.sum.Unseen++
	clear(l.children)
}

// begin begins the slice of a thread, unless it is the idle one.
func (l *timeline) begin(c *cpu, n int, time uint64, t thread) {
	c.known, c.tid, c.slice = true, t.TID, t.TID != 0
	if c.slice {
		l.sum.Slices++
		l.write(n, time, event{Phase: "B", Category: "running", Name: t.name(), Args: map[string]any{"pid": t.PID, "tid": t.TID}})
	}
}

// unseen marks slices that have ended at some time before.
var unseen = map[string]any{"end": "not known"}

func (l *timeline) stop(c *cpu, n int, time uint64, args any) {
	if c.slice {
		l.write(n, time, event{Phase: "E", Args: args})
	}
	c.slice = false
}

// lost shows where events of a CPU are missing: it is not known what ran there meanwhile.
func (l *timeline) lost(n int, after, before, count uint64, kind perfbuf.Kind, reason string) {
	c := l.cpu(n)
	if kind == perfbuf.KindShed {
		l.sum.Shed += count
	} else {
		l.sum.Lost += count
	}
	clear(l.children)           // they may have run
	after = max(after, c.since) // a fleet's gaps may overlap, slices may not
	l.stop(c, n, after, unseen)
	c.known, c.since = false, before
	name := cmp.Or(reason, fmt.Sprintf("%d %v", count, kind))
	l.write(n, after, event{Phase: "B", Category: kind.String(), Name: name, Args: map[string]any{"events": count}})
	l.write(n, before, event{Phase: "E"})
}

func (l *timeline) forked(n int, time uint64, parent, child thread) {
	l.sum.Forks++
	name := "fork"
	if parent.PID == child.PID {
		name = "clone" // a thread
	}
	l.act(n, time, parent, name, map[string]any{"child_pid": child.PID, "child_tid": child.TID})
	l.arrows++
	l.children[child.TID] = l.arrows
	l.write(n, time, event{Phase: "s", Category: "process", Name: "start", ID: l.arrows})
}

func (l *timeline) executed(n int, time uint64, t thread, file string) {
	l.sum.Execs++
	l.act(n, time, t, "exec", map[string]any{"file": file})
}

func (l *timeline) exited(n int, time uint64, t thread, code int32) {
	l.sum.Exits++
	args := map[string]any{}
	if status := unix.WaitStatus(code); status.Signaled() {
		args["signal"] = unix.SignalName(status.Signal())
	} else {
		args["status"] = status.ExitStatus()
	}
	l.act(n, time, t, "exit", args)
}

// act marks what a thread does.
func (l *timeline) act(n int, time uint64, t thread, what string, args map[string]any) {
	c := l.cpu(n)
	if c.known && c.tid != t.TID { // a switch was not seen
		l.missed()
		l.stop(c, n, time, unseen)
		c.known, c.since = false, time
	}
	if !c.known { // it runs there, and has so far
		l.begin(c, n, c.since, t)
	}
	args["pid"], args["tid"] = t.PID, t.TID
	l.write(n, time, event{Phase: "i", Category: "process", Name: what + " " + t.name(), Scope: "t", Args: args})
}

// counters shows how full rings are, and what they have lost.
func (l *timeline) counters(label string, time uint64, rings []perfbuf.RingStats) {
	if label != "" {
		label += " "
	}
	e := event{Phase: "C", Process: processRings, Thread: processRings, Time: l.micros(time)}
	for _, r := range rings {
		e.Name, e.Args = fmt.Sprintf("%sring of CPU %d", label, r.CPU), map[string]any{"bytes used": r.Used}
		l.trace.write(e)
		e.Name, e.Args = fmt.Sprintf("%slost on CPU %d", label, r.CPU), map[string]any{"events": r.Lost}
		l.trace.write(e)
	}
}

// finish ends what still runs.
func (l *timeline) finish(time uint64) {
	for n, c := range l.cpus {
		l.stop(c, n, time, map[string]any{"end": "of the recording"})
	}
	l.sum.Seconds = float64(time-l.start) / 1e9
}
