package demo

import (
	"strconv"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// event is a line of output, in a form that outlives the ring: an object of --json.
type event struct {
	TimeNS   uint64 `json:"time_ns"` // of CLOCK_MONOTONIC
	CPU      int    `json:"cpu"`
	Event    string `json:"event"` // fork, exec, exit, lost or corrupt
	*Process        // of fork, exec and exit
	Lost     uint64 `json:"lost,omitempty"`     // how many
	AfterNS  uint64 `json:"after_ns,omitempty"` // they were lost after this time; 0 if there was no event before
	Error    string `json:"error,omitempty"`    // what is corrupt
	Late     bool   `json:"late,omitempty"`
}

// Process is the process that ran, and what it did. Numbers of threads are 0 for the first thread of a process.
type Process struct {
	PID      uint32 `json:"pid"`
	TID      uint32 `json:"tid,omitempty"`
	Comm     string `json:"comm"`
	ChildPID uint32 `json:"child_pid,omitempty"`
	ChildTID uint32 `json:"child_tid,omitempty"`
	Filename string `json:"filename,omitempty"`
	Signal   string `json:"signal,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`

	core bool // the signal made it dump core
}

// decode copies an event out of its ring.
func decode(ev perfbuf.Event) (event, error) {
	e := event{TimeNS: ev.Time(), CPU: ev.CPU(), Late: ev.Late()}
	switch ev.Kind() {
	case perfbuf.KindLost:
		e.Event, e.Lost, e.AfterNS = "lost", ev.Lost(), ev.LostAfter()
		return e, nil
	case perfbuf.KindCorrupt:
		e.Event, e.Error = "corrupt", ev.Err().Error()
		return e, nil
	}
	did, err := lifecycle.Decode(ev)
	e.Event, e.Process = did.Kind.String(), newProcess(&did)
	return e, err
}

func newProcess(e *lifecycle.Event) *Process {
	p := &Process{PID: e.PID, TID: unlessFirst(e.PID, e.TID), Comm: e.Comm()}
	switch e.Kind {
	case lifecycle.Fork:
		p.ChildPID, p.ChildTID = e.ChildPID, unlessFirst(e.ChildPID, e.ChildTID)
	case lifecycle.Exec:
		p.Filename = e.File()
	case lifecycle.Exit:
		status := unix.WaitStatus(e.Code)
		if code := status.ExitStatus(); !status.Signaled() {
			p.ExitCode = &code
			break
		}
		p.core = status.CoreDump()
		if p.Signal = unix.SignalName(status.Signal()); p.Signal == "" {
			p.Signal = "signal " + strconv.Itoa(int(status.Signal())) // the real-time ones
		}
	}
	return p
}

func unlessFirst(pid, tid uint32) uint32 {
	if tid == pid {
		return 0
	}
	return tid
}
