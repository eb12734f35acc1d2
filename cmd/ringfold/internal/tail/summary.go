package tail

import (
	"strings"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// summary is what was read: printed, as far as events were.
type summary struct {
	Maps          []mapOf `json:"maps"`
	names         string  // for people
	first, last   uint64  // times of events
	Mode          string  `json:"mode"`
	SlackNS       int64   `json:"slack_ns,omitempty"`
	Seconds       float64 `json:"seconds"` // of a recording, that it has
	Events        uint64  `json:"events"`  // samples
	Lost          uint64  `json:"lost"`
	Late          uint64  `json:"late"`
	MaxLatenessNS int64   `json:"max_lateness_ns"`
	Unprinted     uint64  `json:"unprinted"` // samples that were in the rings when -n was reached
	Displaced     int     `json:"displaced"` // entries of maps that had another's perf events
	RingBytes     int     `json:"ring_bytes"`
	CPUs          []cpu   `json:"cpus"`
}

// mapOf is a map that was read.
type mapOf struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
}

// cpu is what was counted for a CPU, or for a ring buffer.
type cpu struct {
	Map       uint32 `json:"map"` // id
	label     string
	CPU       int    `json:"cpu"`
	Events    uint64 `json:"events"`
	Lost      uint64 `json:"lost"`
	Corrupt   uint64 `json:"corrupt"`
	Bytes     uint64 `json:"bytes"` // of records
	HighWater int    `json:"high_water"`
	RingBytes int    `json:"ring_bytes"`
}

func newSummary(c config) *summary {
	s := &summary{Mode: c.mode}
	if c.mode == slack {
		s.SlackNS = c.slack.Nanoseconds()
	}
	return s
}

func (s *summary) add(ev perfbuf.Event) {
	if s.first == 0 {
		s.first = ev.Time()
	}
	s.last = max(s.last, ev.Time())
	if ev.Kind() == perfbuf.KindSample {
		s.Events++
	}
}

// finish adds what the readers have counted.
func (s *summary) finish(elapsed time.Duration, all []*source) {
	s.Seconds = float64(elapsed.Microseconds()) / 1e6 // Seconds adds up two fractions, and prints as 3.8644113559999997
	var names []string
	for _, from := range all {
		names = append(names, from.String())
		typ := from.Map.Type
		if from.file != "" {
			typ = "recording"
			s.Seconds = float64((s.last-s.first)/1e3) / 1e6
		}
		s.Maps = append(s.Maps, mapOf{from.ID, from.Name, typ})
		if !from.Timed() {
			s.Mode, s.SlackNS = unordered, 0
		}
		stats := from.reader.Stats()
		s.Late += stats.Late
		s.MaxLatenessNS = max(s.MaxLatenessNS, stats.MaxLateness.Nanoseconds())
		s.Displaced += stats.ReplacedEntries
		total := stats.Total()
		s.Lost, s.RingBytes = s.Lost+total.Lost, max(s.RingBytes, total.Size)
		if from.file == "" { // the rest of a recording has not come
			s.Unprinted += total.Dropped
		}
		for _, r := range stats.Rings {
			s.CPUs = append(s.CPUs, cpu{from.ID, from.label, r.CPU, r.Samples, r.Lost, r.Corrupt, r.Bytes, r.HighWater, r.Size})
		}
	}
	s.names = strings.Join(names, ", ")
}
