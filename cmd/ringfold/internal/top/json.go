package top

import (
	"encoding/json"
	"io"
	"time"
)

// object is a line of --json. docs/tool.md says what the keys mean.
type object struct {
	Time         string         `json:"time"`
	Elapsed      float64        `json:"elapsed_seconds"`
	Interval     float64        `json:"interval_seconds"`
	Mode         string         `json:"mode"`
	Paused       bool           `json:"paused"`
	Problem      string         `json:"problem"`
	EventsRate   float64        `json:"events_per_second"`
	BytesRate    float64        `json:"bytes_per_second"`
	LostRate     float64        `json:"lost_per_second"`
	Delivered    uint64         `json:"delivered"`
	Dropped      uint64         `json:"dropped"`
	Lost         uint64         `json:"lost"`
	Corrupt      uint64         `json:"corrupt"`
	Late         uint64         `json:"late"`
	MaxLateness  float64        `json:"max_lateness_seconds"`
	SpilledBytes uint64         `json:"spilled_bytes"`
	SpillUsed    uint64         `json:"spill_used_bytes"`
	Wakes        uint64         `json:"wakeups"`
	Passes       uint64         `json:"passes"`
	Choices      uint64         `json:"choices"`
	Replaced     int            `json:"replaced_entries"`
	Displaced    *int           `json:"displaced"` // null: not known
	Doorbell     doorbellObject `json:"doorbell"`
	Barrier      *barrierObject `json:"barrier"`
	Outputs      *outputsObject `json:"outputs"`
	Rings        []ringObject   `json:"rings"`
}

type doorbellObject struct {
	Armed int    `json:"armed"`
	Polls uint64 `json:"polls"`
	Error string `json:"error"`
}

type barrierObject struct {
	Provider string  `json:"provider"`
	Count    uint64  `json:"count"`
	Failed   uint64  `json:"failed"`
	P50      float64 `json:"p50_seconds"`
	P99      float64 `json:"p99_seconds"`
	Max      float64 `json:"max_seconds"`
	Stalled  float64 `json:"stalled_seconds"`
}

type outputsObject struct {
	Attempted uint64 `json:"attempted"`
	Written   uint64 `json:"written"`
	Full      uint64 `json:"full"`
	NoRing    uint64 `json:"no_ring"`
	Other     uint64 `json:"other"`
}

type ringObject struct {
	Map        string  `json:"map"` // empty if there is but one
	CPU        int     `json:"cpu"`
	Size       int     `json:"size_bytes"`
	Used       int     `json:"used_bytes"`
	HighWater  int     `json:"high_water_bytes"`
	EventsRate float64 `json:"events_per_second"`
	BytesRate  float64 `json:"bytes_per_second"`
	LostRate   float64 `json:"lost_per_second"`
	Delivered  uint64  `json:"delivered"`
	Dropped    uint64  `json:"dropped"`
	Lost       uint64  `json:"lost"`
	Armed      bool    `json:"armed"`
	First      float64 `json:"first_share"`
	Last       bool    `json:"first_last"`
}

func newObject(f frame) object {
	s, t := f.stats, f.total
	o := object{
		Time: f.at.Format(time.RFC3339Nano), Elapsed: f.elapsed.Seconds(), Interval: f.interval.Seconds(),
		Mode: f.mode.String(), Paused: f.paused, Problem: f.problem,
		EventsRate: t.events, BytesRate: t.bytes, LostRate: t.lost,
		Delivered: t.Samples, Dropped: t.Dropped, Lost: t.Lost, Corrupt: t.Corrupt,
		Late: s.Late, MaxLateness: s.MaxLateness.Seconds(), SpilledBytes: s.SpilledBytes, SpillUsed: s.SpillUsed,
		Wakes: s.Wakes, Passes: s.Passes, Choices: f.choices, Replaced: s.ReplacedEntries,
		Doorbell: doorbellObject{Armed: s.Doorbell.Armed, Polls: s.Doorbell.Polls},
	}
	if d := s.Displaced; d.Entries > 0 || d.Err == nil {
		o.Displaced = &d.Entries
	}
	if s.Doorbell.Err != nil {
		o.Doorbell.Error = s.Doorbell.Err.Error()
	}
	if b := s.Barrier; b.Provider != "" {
		o.Barrier = &barrierObject{Provider: b.Provider, Count: b.Count, Failed: b.Failed,
			P50: b.P50.Seconds(), P99: b.P99.Seconds(), Max: b.Max.Seconds(), Stalled: b.Stalled.Seconds()}
	}
	if s.Outputs.CPUs != nil {
		a := s.Outputs.Total()
		o.Outputs = &outputsObject{Attempted: a.Attempted, Written: a.Written, Full: a.Full, NoRing: a.NoRing,
			Other: a.Attempted - a.Written - a.Full - a.NoRing}
	}
	for _, r := range f.rows {
		o.Rings = append(o.Rings, ringObject{Map: r.name, CPU: r.CPU, Size: r.Size, Used: r.Used, HighWater: r.HighWater,
			EventsRate: r.events, BytesRate: r.bytes, LostRate: r.lost, Delivered: r.Samples, Dropped: r.Dropped, Lost: r.Lost,
			Armed: r.Armed, First: r.first, Last: r.last})
	}
	return o
}

// jsonLines prints an object for each frame, and the last one as {"summary":...}.
type jsonLines struct{ out io.Writer }

func (j jsonLines) frame(f frame) error { return json.NewEncoder(j.out).Encode(newObject(f)) }

func (j jsonLines) final(f frame) error {
	return json.NewEncoder(j.out).Encode(map[string]object{"summary": newObject(f)})
}
