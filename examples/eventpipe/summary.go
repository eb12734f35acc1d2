package main

import (
	"time"

	"github.com/ringfold/ringfold/internal/perfmaps"
	"github.com/ringfold/ringfold/perfbuf"
)

// summary is what was read: printed, as far as events were.
type summary struct {
	Map struct {
		ID   uint32 `json:"id"`
		Name string `json:"name"`
		name string // for people
	} `json:"map"`
	Mode          string  `json:"mode"`
	SlackNS       int64   `json:"slack_ns,omitempty"`
	Seconds       float64 `json:"seconds"`
	Events        uint64  `json:"events"` // samples
	Lost          uint64  `json:"lost"`
	Late          uint64  `json:"late"`
	MaxLatenessNS int64   `json:"max_lateness_ns"`
	Unprinted     uint64  `json:"unprinted"` // samples that were in the rings when -n was reached
	Displaced     int     `json:"displaced"` // entries of the map that had another's perf events
	RingBytes     int     `json:"ring_bytes"`
	CPUs          []cpu   `json:"cpus"`
}

// cpu is what was counted for a CPU.
type cpu struct {
	CPU       int    `json:"cpu"`
	Events    uint64 `json:"events"`
	Lost      uint64 `json:"lost"`
	Corrupt   uint64 `json:"corrupt"`
	Bytes     uint64 `json:"bytes"` // of records
	HighWater int    `json:"high_water"`
	RingBytes int    `json:"ring_bytes"`
}

func newSummary(c config, m perfmaps.Map) *summary {
	s := &summary{Mode: c.mode}
	s.Map.ID, s.Map.Name, s.Map.name = m.ID, m.Name, m.String()
	if c.mode == slack {
		s.SlackNS = c.slack.Nanoseconds()
	}
	return s
}

func (s *summary) add(ev perfbuf.Event) {
	if ev.Kind() == perfbuf.KindSample {
		s.Events++
	}
}

// finish adds what the reader has counted.
func (s *summary) finish(elapsed time.Duration, stats perfbuf.Stats) {
	s.Seconds = float64(elapsed.Microseconds()) / 1e6 // Seconds adds up two fractions, and prints as 3.8644113559999997
	s.Late, s.MaxLatenessNS = stats.Late, stats.MaxLateness.Nanoseconds()
	s.Displaced = stats.ReplacedEntries
	total := stats.Total()
	s.Lost, s.Unprinted, s.RingBytes = total.Lost, total.Dropped, total.Size
	for _, r := range stats.Rings {
		s.CPUs = append(s.CPUs, cpu{r.CPU, r.Samples, r.Lost, r.Corrupt, r.Bytes, r.HighWater, r.Size})
	}
}
