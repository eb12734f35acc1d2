package demo

import (
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/lifecycle"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// sample is an event with names in it.
func sample(e event, comm, file string) *event {
	e.kind = perfbuf.KindSample
	copy(e.CommBytes[:], comm)
	copy(e.FileBytes[:], file)
	return &e
}

func TestJSONLines(t *testing.T) {
	corrupt := &perfbuf.CorruptError{CPU: 1, Offset: 8, Skipped: 16, Reason: "no reason"}
	for _, c := range []struct {
		event *event
		want  string
	}{
		{sample(event{time: 5, cpu: 1, Event: lifecycle.Event{Kind: lifecycle.Fork, PID: 7, TID: 7, ChildPID: 8, ChildTID: 8}}, "sh", ""),
			`{"time_ns":5,"cpu":1,"event":"fork","pid":7,"comm":"sh","child_pid":8}`},
		{sample(event{Event: lifecycle.Event{Kind: lifecycle.Fork, PID: 7, TID: 9, ChildPID: 7, ChildTID: 10}}, "go", ""),
			`{"time_ns":0,"cpu":0,"event":"fork","pid":7,"tid":9,"comm":"go","child_pid":7,"child_tid":10}`},
		{sample(event{Event: lifecycle.Event{Kind: lifecycle.Exec, PID: 8, TID: 8}}, "true", "/bin/true"),
			`{"time_ns":0,"cpu":0,"event":"exec","pid":8,"comm":"true","filename":"/bin/true"}`},
		{sample(event{late: true, Event: lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 8, Code: 3 << 8}}, "true", ""),
			`{"time_ns":0,"cpu":0,"event":"exit","pid":8,"comm":"true","exit_code":3,"late":true}`},
		{sample(event{Event: lifecycle.Event{Kind: lifecycle.Exit, PID: 8, TID: 8, Code: 9}}, "true", ""),
			`{"time_ns":0,"cpu":0,"event":"exit","pid":8,"comm":"true","signal":"SIGKILL"}`},
		{sample(event{Event: lifecycle.Event{Kind: lifecycle.Exec, PID: 8, TID: 8}}, "\x1b<\"\xff", "\n"),
			`{"time_ns":0,"cpu":0,"event":"exec","pid":8,"comm":"\u001b<\"\ufffd","filename":"\n"}`},
		{&event{time: 20, lost: 3, after: 10, kind: perfbuf.KindLost},
			`{"time_ns":20,"cpu":0,"event":"lost","lost":3,"after_ns":10}`},
		{&event{time: 20, cpu: 1, err: corrupt, kind: perfbuf.KindCorrupt},
			`{"time_ns":20,"cpu":1,"event":"corrupt","error":"` + corrupt.Error() + `"}`},
	} {
		require.Equal(t, c.want+"\n", string(jsonLines{}.event(nil, c.event)))
	}
}
