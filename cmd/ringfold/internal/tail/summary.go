package tail

import (
	"strings"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/fleet"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
)

// summary is what was read: printed, as far as events were.
type summary struct {
	Maps          []mapOf         `json:"maps"`
	names         string          // for people
	Mode          source.Mode     `json:"mode"`
	SlackNS       int64           `json:"slack_ns,omitempty"`
	Seconds       float64         `json:"seconds"` // of a recording, that it has
	Events        uint64          `json:"events"`  // samples
	Lost          uint64          `json:"lost"`
	Shed          uint64          `json:"shed"` // by programs, to keep room for other lanes
	Late          uint64          `json:"late"`
	Untimed       uint64          `json:"untimed"`  // samples without a time where time= says
	Filtered      uint64          `json:"filtered"` // samples that did not match
	MaxLatenessNS int64           `json:"max_lateness_ns"`
	Unprinted     uint64          `json:"unprinted"`        // samples left in the rings at --count
	Replaced      int             `json:"replaced_entries"` // entries of another reader before
	Displaced     *int            `json:"displaced"`        // entries that other readers have taken; nil: not known
	OwnedUntil    uint64          `json:"owned_until_ns,omitempty"`
	RingBytes     int             `json:"ring_bytes"`
	CPUs          []cpu           `json:"cpus"`
	Command       *source.Command `json:"command,omitempty"`
	Fleet         *fleet.Result   `json:"fleet,omitempty"`
	DelayP50NS    int64           `json:"delay_p50_ns,omitempty"` // of a fleet, from event to print, of what happened meanwhile
	DelayP99NS    int64           `json:"delay_p99_ns,omitempty"`
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
	Shed      uint64 `json:"shed"`
	Corrupt   uint64 `json:"corrupt"`
	Bytes     uint64 `json:"bytes"` // of records
	HighWater int    `json:"high_water"`
	RingBytes int    `json:"ring_bytes"`
}

// summary adds up what the readers have counted, when they are closed.
func (c *config) summary(set *source.Set) *summary {
	s := &summary{Mode: set.Mode(), Seconds: seconds(set.Elapsed()), Events: set.Samples, Filtered: set.Filtered, Command: set.Command}
	if s.Mode == source.Slack {
		s.SlackNS = c.Slack.Nanoseconds()
	}
	var names []string
	for _, from := range set.Sources {
		names = append(names, from.String())
		typ := from.Map.Type
		if from.Recorded() {
			typ = "recording"
		}
		s.Maps = append(s.Maps, mapOf{from.ID, from.Name, typ})
		stats := from.Stats()
		s.Late, s.Untimed = s.Late+stats.Late, s.Untimed+stats.Untimed
		s.MaxLatenessNS = max(s.MaxLatenessNS, stats.MaxLateness.Nanoseconds())
		s.Replaced += stats.ReplacedEntries
		total := stats.Total()
		s.Lost, s.Shed, s.RingBytes = s.Lost+total.Lost, s.Shed+total.Shed, max(s.RingBytes, total.Size)
		if !from.Recorded() { // the rest of a recording has not come
			s.Unprinted += total.Dropped
		}
		for _, r := range stats.Rings {
			s.CPUs = append(s.CPUs, cpu{from.ID, from.Label, r.CPU, r.Samples, r.Lost, r.Shed, r.Corrupt, r.Bytes, r.HighWater, r.Size})
		}
	}
	s.Displaced, s.OwnedUntil = set.Displaced()
	s.Fleet = set.Fleet()
	s.DelayP50NS, s.DelayP99NS = int64(c.delay.Quantile(0.5)), int64(c.delay.Quantile(0.99))
	s.names = strings.Join(names, ", ")
	return s
}

// seconds has microseconds. Duration.Seconds adds up two fractions, and prints as 3.8644113559999997.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }
