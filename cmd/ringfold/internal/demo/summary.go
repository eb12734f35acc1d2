package demo

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/perfbuf"
)

// summary counts what was printed, and checks its order: it trusts the times, not the library.
// The exported fields are printed with --json.
type summary struct {
	Events     uint64 `json:"events"` // lines printed, those of losses and of corrupt memory included
	CPUs       int    `json:"cpus"`   // rings
	Mode       string `json:"mode"`
	Reordered  uint64 `json:"reordered"`    // see byRing
	Late       uint64 `json:"late"`         // events marked so
	Lost       uint64 `json:"lost"`         // outputs that found their ring full
	OutOfOrder uint64 `json:"out_of_order"` // events before one that was printed, and not marked as late
	Overtaken  uint64 `json:"overtaken"`    // see byRing
	Corrupt    uint64 `json:"corrupt"`
	Simulated  bool   `json:"simulated,omitempty"`

	// Outputs is Samples + Lost + Unread: all, as far as the kernel counts them.
	Outputs uint64 `json:"outputs"`
	Samples uint64 `json:"samples"` // printed
	Unread  uint64 `json:"unread"`  // left in the rings, as --count was reached

	SlackNS      int64     `json:"slack_ns"` // 0 in exact mode
	LatenessNS   uint64    `json:"max_lateness_ns"`
	LatencyP50NS uint64    `json:"latency_p50_ns"` // from an event to its line
	LatencyP99NS uint64    `json:"latency_p99_ns"`
	SpilledBytes uint64    `json:"spilled_bytes"`      // copied out of rings that filled up
	Barriers     *barriers `json:"barriers,omitempty"` // in exact mode
	RingUse      float64   `json:"ring_use_percent"`   // of the fullest ring, at its fullest
	PerCPU       []onCPU   `json:"per_cpu"`

	elapsed time.Duration
	first   []event // of all
	newest  uint64  // the latest time so far
	byRing  byRing
	latency quantile.Histogram
}

// barriers are what proved that the order is complete.
type barriers struct {
	Provider string `json:"provider"`
	Count    uint64 `json:"count"`
	Failed   uint64 `json:"failed"`
	P50NS    int64  `json:"p50_ns"`
	P99NS    int64  `json:"p99_ns"`
	MaxNS    int64  `json:"max_ns"`
}

type onCPU struct {
	CPU    int    `json:"cpu"`
	Events uint64 `json:"events"`
}

func newSummary(c config, cpus []int) *summary {
	s := &summary{CPUs: len(cpus), Mode: c.mode, Simulated: c.simulate}
	if c.mode == slack {
		s.SlackNS = int64(c.slack)
	}
	for _, cpu := range cpus {
		s.ring(cpu)
	}
	return s
}

// ring is the index of a CPU's ring, which is new for a CPU that has come online meanwhile.
func (s *summary) ring(cpu int) int {
	i := slices.IndexFunc(s.PerCPU, func(c onCPU) bool { return c.CPU == cpu })
	if i < 0 {
		i = len(s.PerCPU)
		s.PerCPU, s.byRing.round = append(s.PerCPU, onCPU{CPU: cpu}), append(s.byRing.round, nil)
	}
	return i
}

// add counts an event that is printed now.
func (s *summary) add(e *event, now uint64) {
	ring := s.ring(e.CPU)
	s.Events++
	s.PerCPU[ring].Events++
	s.Lost += e.Lost
	if e.Event == "corrupt" {
		s.Corrupt++
	}
	switch {
	case e.Late:
		s.Late++
		if e.TimeNS < s.newest {
			s.LatenessNS = max(s.LatenessNS, s.newest-e.TimeNS)
		}
	case e.TimeNS < s.newest:
		s.OutOfOrder++
	default:
		s.newest = e.TimeNS
	}
	s.byRing.round[ring] = append(s.byRing.round[ring], *e)
	if len(s.first) < firstLines {
		s.first = append(s.first, *e)
	}
	s.latency.Add(now - min(now, e.TimeNS))
}

// endRound ends a pass over all rings.
func (s *summary) endRound() { s.Reordered, s.Overtaken = s.byRing.endRound() }

// finish takes what the library has counted, when its reader is closed.
func (s *summary) finish(elapsed time.Duration, stats perfbuf.Stats) {
	s.elapsed = elapsed
	s.LatencyP50NS, s.LatencyP99NS = s.latency.Quantile(0.5), s.latency.Quantile(0.99)
	t := stats.Total()
	s.Samples, s.Lost, s.Unread = t.Samples, t.Lost, t.Dropped
	s.Outputs = s.Samples + s.Lost + s.Unread
	s.SpilledBytes = stats.SpilledBytes
	s.RingUse = math.Round(1000*100*float64(t.HighWater)/float64(max(t.Size, 1))) / 1000
	if s.Mode == exact {
		b := stats.Barrier
		s.Barriers = &barriers{b.Provider, b.Count, b.Failed, int64(b.P50), int64(b.P99), int64(b.Max)}
	}
}

// verdict is an error if the library did not keep what it promises.
func (s *summary) verdict() error {
	switch {
	case s.OutOfOrder > 0:
		return fmt.Errorf("%s out of order and not marked as late: this is a bug", count(s.OutOfOrder, "event", "was", "were"))
	case s.Mode == exact && s.Late > 0:
		return fmt.Errorf("%s late in exact mode: this is a bug", count(s.Late, "event", "was", "were"))
	}
	return nil
}
