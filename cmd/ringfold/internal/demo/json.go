package demo

import (
	"bytes"
	"encoding/json"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// jsonLines prints an object per line. The last line has the summary instead.
type jsonLines struct{}

// jsonEvent is an event. All have time_ns (of CLOCK_MONOTONIC), cpu and event; late is there only if true. pid and comm are
// those of the process that ran, tid that of its thread, unless it is the first.
type jsonEvent struct {
	TimeNS   uint64  `json:"time_ns"`
	CPU      int     `json:"cpu"`
	Event    string  `json:"event"`
	Lost     uint64  `json:"lost,omitempty"`
	AfterNS  *uint64 `json:"after_ns,omitempty"`
	Error    string  `json:"error,omitempty"`
	PID      *uint32 `json:"pid,omitempty"`
	TID      uint32  `json:"tid,omitempty"`
	Comm     *string `json:"comm,omitempty"`
	ChildPID uint32  `json:"child_pid,omitempty"`
	ChildTID uint32  `json:"child_tid,omitempty"`
	File     *string `json:"filename,omitempty"`
	Signal   string  `json:"signal,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Late     bool    `json:"late,omitempty"`
}

func (jsonLines) header(b []byte, _ []int) []byte { return b }

func (jsonLines) event(b []byte, e *event) []byte {
	out := jsonEvent{TimeNS: e.time, CPU: e.cpu, Event: e.name(), Late: e.late}
	switch e.kind {
	case perfbuf.KindLost:
		out.Lost, out.AfterNS = e.lost, &e.after
		return appendLine(b, out)
	case perfbuf.KindCorrupt:
		out.Error = e.err.Error()
		return appendLine(b, out)
	}
	comm := e.Comm()
	out.PID, out.TID, out.Comm = &e.PID, unlessFirst(e.PID, e.TID), &comm
	switch e.Kind {
	case lifecycle.Fork:
		out.ChildPID, out.ChildTID = e.ChildPID, unlessFirst(e.ChildPID, e.ChildTID)
	case lifecycle.Exec:
		file := e.File()
		out.File = &file
	case lifecycle.Exit:
		if status := unix.WaitStatus(e.Code); status.Signaled() {
			out.Signal = signalName(status.Signal())
		} else {
			code := status.ExitStatus()
			out.ExitCode = &code
		}
	}
	return appendLine(b, out)
}

func unlessFirst(pid, tid uint32) uint32 {
	if tid == pid {
		return 0
	}
	return tid
}

func (jsonLines) summary(b []byte, s *summary) []byte {
	return appendLine(b, map[string]*summary{"summary": s})
}

// appendLine appends v as a line. Names of programs and files may hold any bytes: what is not UTF-8 becomes U+FFFD.
func appendLine(b []byte, v any) []byte {
	buf := bytes.NewBuffer(b)
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only numbers and strings
	}
	return buf.Bytes()
}
