package demo

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// jsonLines prints an object per line. All events have time_ns (of CLOCK_MONOTONIC), cpu and
// event; late is there only if true. pid and comm are those of the process that ran, tid
// that of its thread, unless it is the first. The last line has the summary instead.
//
// Events are put together by hand: encoding/json takes several times as long, which shows with -sched.
type jsonLines struct{}

func (jsonLines) header(b []byte, _ []int) []byte { return b }

func (jsonLines) event(b []byte, e *event) []byte {
	b = append(b, `{"time_ns":`...)
	b = strconv.AppendUint(b, e.time, 10)
	b = appendInt(b, "cpu", int64(e.cpu))
	b = appendString(b, "event", e.Kind.String())
	switch e.Kind {
	case kindLost:
		b = appendInt(b, "lost", int64(e.lost))
		b = appendInt(b, "after_ns", int64(e.after))
	case kindCorrupt:
		b = appendString(b, "error", e.err.Error())
	default:
		b = appendTask(b, "pid", e.PID, "tid", e.TID)
		b = appendBytes(b, "comm", e.comm())
		b = appendDetails(b, e)
	}
	if e.late {
		b = append(b, `,"late":true`...)
	}
	return append(b, '}', '\n')
}

func appendDetails(b []byte, e *event) []byte {
	switch e.Kind {
	case kindFork:
		b = appendTask(b, "child_pid", e.OtherPID, "child_tid", e.OtherTID)
	case kindExec:
		b = appendBytes(b, "filename", e.detail())
	case kindExit:
		status := unix.WaitStatus(e.Code)
		if status.Signaled() {
			b = appendString(b, "signal", signalName(status.Signal()))
		} else {
			b = appendInt(b, "exit_code", int64(status.ExitStatus()))
		}
	case kindWakeup:
		b = appendTask(b, "woken_pid", e.OtherPID, "woken_tid", e.OtherTID)
		b = appendBytes(b, "woken_comm", e.detail())
	case kindSwitch:
		b = appendTask(b, "next_pid", e.OtherPID, "next_tid", e.OtherTID)
		b = appendBytes(b, "next_comm", e.detail())
		if e.Code != 0 {
			b = append(b, `,"preempted":true`...)
		}
	}
	return b
}

// appendTask names a process, and the thread if that is not its first one.
func appendTask(b []byte, pidKey string, pid uint32, tidKey string, tid uint32) []byte {
	b = appendInt(b, pidKey, int64(pid))
	if tid != pid {
		b = appendInt(b, tidKey, int64(tid))
	}
	return b
}

func (jsonLines) summary(b []byte, s *summary) []byte {
	line, err := json.Marshal(map[string]*summary{"summary": s})
	if err != nil {
		panic(err) // only numbers and strings
	}
	return append(append(b, line...), '\n')
}

func appendInt(b []byte, key string, v int64) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, v, 10)
}

func appendString(b []byte, key, v string) []byte { return appendBytes(b, key, []byte(v)) }

func appendBytes(b []byte, key string, v []byte) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return appendQuoted(b, v)
}

// appendQuoted appends s as a JSON string. Names of programs and files may
// hold any bytes: what is not UTF-8 becomes U+FFFD, as encoding/json has it.
func appendQuoted(b, s []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		case r < utf8.RuneSelf:
			b = append(b, byte(r))
		default:
			b = utf8.AppendRune(b, r) // RuneError for what is not UTF-8
		}
		s = s[n:]
	}
	return append(b, '"')
}
