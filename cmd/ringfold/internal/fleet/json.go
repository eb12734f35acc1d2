package fleet

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/tail"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet/wire"
)

// jsonLines prints an object per line. The last one has only the key "summary".
type jsonLines struct{}

// jsonEvent is an event or a gap.
type jsonEvent struct {
	Time      string `json:"time,omitempty"` // RFC 3339, UTC, with ns; left out if it is not known
	Error     uint64 `json:"error_ns"`       // by how much it may be wrong
	Host      string `json:"host"`
	Boot      string `json:"boot,omitempty"`
	Log       string `json:"log,omitempty"`
	Sequence  uint64 `json:"sequence,omitempty"` // of the batch
	Monotonic uint64 `json:"monotonic_ns"`       // the host's CLOCK_MONOTONIC
	Event     string `json:"event"`              // fork, exec, exit, gap
	CPU       uint32 `json:"cpu"`
	PID       uint32 `json:"pid"`
	TID       uint32 `json:"tid"`
	ChildPID  uint32 `json:"child_pid,omitempty"` // of forks
	ChildTID  uint32 `json:"child_tid,omitempty"`
	Comm      string `json:"comm"`
	Status    *int32 `json:"status,omitempty"` // of exits, as wait(2) has it
	Detail    string `json:"detail,omitempty"` // of execs: the file; of gaps: which
	Reason    string `json:"reason,omitempty"` // of gaps
	Missing   uint64 `json:"missing,omitempty"`
	After     string `json:"after,omitempty"` // nothing is missing before
	Late      bool   `json:"late,omitempty"`
	Forced    bool   `json:"forced,omitempty"`
}

func (jsonLines) item(b []byte, i tail.Item) []byte {
	ev := i.Event
	e := jsonEvent{
		Time: jsonTime(i.Wall), Error: i.Error, Host: i.Host, Boot: i.BootID, Log: i.LogID, Sequence: i.Sequence, Monotonic: i.Time,
		Event: eventName(ev.Kind), CPU: ev.Cpu, PID: ev.Pid, TID: ev.Tid, ChildPID: ev.OtherPid, ChildTID: ev.OtherTid, Comm: ev.Comm, Detail: ev.Detail,
		Late: i.Late, Forced: i.Forced,
	}
	if ev.Kind == wire.Event_EXIT {
		e.Status = &ev.Code
	}
	if gap := ev.Gap; gap != nil {
		e.Reason, e.Missing, e.After = reasonName(gap.Reason), gap.Count, jsonTime(i.After)
	}
	return appendJSON(b, e)
}

func jsonTime(wall int64) string {
	if wall == 0 {
		return ""
	}
	return time.Unix(0, wall).UTC().Format(time.RFC3339Nano)
}

type jsonSummary struct {
	tail.Result
	Printed  uint64     `json:"printed"`
	Complete bool       `json:"complete"` // no event of these hosts is missing, between their times
	Unknown  []string   `json:"unknown"`  // why that is false, or not known
	Gaps     []jsonGaps `json:"gaps"`
	DelayP50 uint64     `json:"delay_p50_ns"`
	DelayP99 uint64     `json:"delay_p99_ns"`
}

type jsonGaps struct {
	Reason string `json:"reason"`
	tail.Gaps
}

func (jsonLines) summary(b []byte, p *printed, r tail.Result) []byte {
	s := jsonSummary{
		Result: r, Printed: p.events, Complete: len(p.unknown) == 0, Unknown: append([]string{}, p.unknown...), Gaps: []jsonGaps{},
		DelayP50: p.delay.Quantile(0.5), DelayP99: p.delay.Quantile(0.99),
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Gaps)) {
		s.Gaps = append(s.Gaps, jsonGaps{reasonName(reason), r.Gaps[reason]})
	}
	return appendJSON(b, map[string]jsonSummary{"summary": s})
}

func reasonName(r wire.Gap_Reason) string { return strings.ToLower(r.String()) }

func appendJSON(b []byte, v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return append(append(b, line...), '\n')
}
