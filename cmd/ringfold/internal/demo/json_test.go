package demo

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestJSONStrings(t *testing.T) {
	check := func(s string) {
		t.Helper()
		got := appendQuoted(nil, []byte(s))
		var back, want string
		require.NoError(t, json.Unmarshal(got, &back), "%q became %s", s, got)
		std, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(std, &want))
		require.Equal(t, want, back)
	}
	for _, s := range []string{"", "bash", `a"b\c`, "a\nb\x00\x1f\x7f", "\x1b[31m", "é✓\U0001F600", "\xff\xc3", "é"[:1] + "x", "\u2028"} {
		check(s)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		b := make([]byte, r.IntN(20))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		check(string(b))
	}
}

// made is an event with names in it.
func made(e event, comm, detail string) *event {
	copy(e.Comm[:], comm)
	copy(e.Detail[:], detail)
	return &e
}

func TestJSONLines(t *testing.T) {
	corrupt := &perfbuf.CorruptError{CPU: 1, Offset: 8, Skipped: 16, Reason: "no reason"}
	for _, c := range []struct {
		event *event
		want  string
	}{
		{made(event{time: 5, cpu: 1, payload: payload{Kind: kindFork, PID: 7, TID: 7, OtherPID: 8, OtherTID: 8}}, "sh", ""),
			`{"time_ns":5,"cpu":1,"event":"fork","pid":7,"comm":"sh","child_pid":8}`},
		{made(event{payload: payload{Kind: kindFork, PID: 7, TID: 9, OtherPID: 7, OtherTID: 10}}, "go", ""),
			`{"time_ns":0,"cpu":0,"event":"fork","pid":7,"tid":9,"comm":"go","child_pid":7,"child_tid":10}`},
		{made(event{payload: payload{Kind: kindExec, PID: 8, TID: 8}}, "true", "/bin/true"),
			`{"time_ns":0,"cpu":0,"event":"exec","pid":8,"comm":"true","filename":"/bin/true"}`},
		{made(event{late: true, payload: payload{Kind: kindExit, PID: 8, TID: 8, Code: 3 << 8}}, "true", ""),
			`{"time_ns":0,"cpu":0,"event":"exit","pid":8,"comm":"true","exit_code":3,"late":true}`},
		{made(event{payload: payload{Kind: kindExit, PID: 8, TID: 8, Code: 9}}, "true", ""),
			`{"time_ns":0,"cpu":0,"event":"exit","pid":8,"comm":"true","signal":"SIGKILL"}`},
		{made(event{payload: payload{Kind: kindWakeup, PID: 8, TID: 8, OtherPID: 4, OtherTID: 5}}, "a", "b"),
			`{"time_ns":0,"cpu":0,"event":"wakeup","pid":8,"comm":"a","woken_pid":4,"woken_tid":5,"woken_comm":"b"}`},
		{made(event{payload: payload{Kind: kindSwitch, PID: 8, TID: 8, Code: 1}}, "a", "swapper/0"),
			`{"time_ns":0,"cpu":0,"event":"switch","pid":8,"comm":"a","next_pid":0,"next_comm":"swapper/0","preempted":true}`},
		{&event{time: 20, lost: 3, after: 10, payload: payload{Kind: kindLost}},
			`{"time_ns":20,"cpu":0,"event":"lost","lost":3,"after_ns":10}`},
		{&event{time: 20, cpu: 1, err: corrupt, payload: payload{Kind: kindCorrupt}},
			`{"time_ns":20,"cpu":1,"event":"corrupt","error":"` + corrupt.Error() + `"}`},
	} {
		require.Equal(t, c.want+"\n", string(jsonLines{}.event(nil, c.event)))
	}
}

func BenchmarkPrint(b *testing.B) {
	e := made(event{cpu: 1, time: 3000515968217, payload: payload{Kind: kindSwitch, PID: 1234, TID: 1235, OtherPID: 99, OtherTID: 99}}, "python3", "kworker/u8:3-kv")
	for name, p := range map[string]printer{"json": jsonLines{}, "text": &text{cpuWidth: 3}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var line []byte
			for b.Loop() {
				line = p.event(line[:0], e)
			}
		})
	}
}
