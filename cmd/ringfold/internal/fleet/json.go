package fleet

import (
	"encoding/json"
	"maps"
	"slices"
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
	Events     uint64              `json:"events"`
	Printed    uint64              `json:"printed"`
	Hosts      map[string]jsonHost `json:"hosts"`
	Complete   bool                `json:"complete"` // no event of these hosts is missing, between their times
	Unknown    []string            `json:"unknown"`  // why that is not so, or not known
	Late       uint64              `json:"late"`
	Forced     uint64              `json:"forced"`
	Gaps       []jsonGaps          `json:"gaps"`
	Duplicates uint64              `json:"duplicates"` // batches
	Malformed  uint64              `json:"malformed"`  // messages
	Unread     int                 `json:"unread"`     // events that were held back when --count was reached
	DelayP50   uint64              `json:"delay_p50_ns"`
	DelayP99   uint64              `json:"delay_p99_ns"`
	MaxError   int64               `json:"max_error_ns"`
	Waiting    *jsonWait           `json:"waiting,omitempty"`
}

// jsonHost is what is known of a host: all that happened from a time to another, but for the gaps.
type jsonHost struct {
	Events uint64 `json:"events"`
	From   string `json:"from,omitempty"` // left out if nothing is known
	To     string `json:"to,omitempty"`
	Gaps   uint64 `json:"gaps"`
	Silent bool   `json:"silent,omitempty"`
}

// jsonWait is a host that events waited for until the end.
type jsonWait struct {
	Host   string `json:"host"`
	Since  string `json:"since"`
	Events int    `json:"events"`
}

type jsonGaps struct {
	Reason  string `json:"reason"`
	Gaps    uint64 `json:"gaps"`
	Missing uint64 `json:"missing"` // events, as far as is known
}

func (jsonLines) summary(b []byte, p printed, r tail.Result) []byte {
	s := jsonSummary{Events: r.Events, Printed: p.events, Hosts: map[string]jsonHost{}, Complete: len(p.unknown) == 0, Unknown: append([]string{}, p.unknown...), Late: r.Late, Forced: r.Forced, Gaps: []jsonGaps{}, Duplicates: r.Duplicates,
		Malformed: r.Malformed, Unread: r.Unread, DelayP50: p.delay.Quantile(0.5), DelayP99: p.delay.Quantile(0.99), MaxError: int64(r.MaxError)}
	for name, h := range r.ByHost {
		of := jsonHost{Events: h.Events, Gaps: h.Gaps, Silent: h.Silent}
		if !h.From.IsZero() {
			of.From, of.To = jsonTime(h.From.UnixNano()), jsonTime(h.To.UnixNano())
		}
		s.Hosts[name] = of
	}
	if w := r.Waiting; w != nil {
		s.Waiting = &jsonWait{w.Host, jsonTime(w.Since.UnixNano()), w.Events}
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Gaps)) {
		s.Gaps = append(s.Gaps, jsonGaps{reasonName(reason), r.Gaps[reason].Gaps, r.Gaps[reason].Events})
	}
	return appendJSON(b, map[string]jsonSummary{"summary": s})
}

func appendJSON(b []byte, v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return append(append(b, line...), '\n')
}
