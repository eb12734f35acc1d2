package main

import (
	"math"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
)

// summary counts what was printed, and checks its order: it trusts the times, not the library.
// The exported fields are printed with -json.
type summary struct {
	Events     uint64  `json:"events"` // lines printed, those of losses and of corrupt memory included
	CPUs       int     `json:"cpus"`   // rings
	Mode       string  `json:"mode"`
	Reordered  uint64  `json:"reordered"`    // see byRing
	Late       uint64  `json:"late"`         // events marked so
	Lost       uint64  `json:"lost"`         // outputs that found their ring full
	OutOfOrder uint64  `json:"out_of_order"` // events before one that was printed, and not marked as late
	Displaced  uint64  `json:"displaced"`    // see byRing
	Corrupt    uint64  `json:"corrupt"`
	SlackNS    int64   `json:"slack_ns"`
	LatenessNS uint64  `json:"max_lateness_ns"`
	RingUse    float64 `json:"ring_use_percent"` // of the fullest ring, at its fullest
	PerCPU     []onCPU `json:"per_cpu"`

	elapsed time.Duration
	newest  uint64 // the latest time so far
	index   []int  // of CPUs in PerCPU
	byRing  byRing
}

type onCPU struct {
	CPU    int    `json:"cpu"`
	Events uint64 `json:"events"`
}

func newSummary(cpus []int) *summary {
	s := &summary{CPUs: len(cpus), index: make([]int, cpus[len(cpus)-1]+1)}
	for i, cpu := range cpus {
		s.index[cpu] = i
		s.PerCPU = append(s.PerCPU, onCPU{CPU: cpu})
	}
	s.byRing.times = make([][]uint64, len(cpus))
	return s
}

// add counts an event that is printed.
func (s *summary) add(e *event) {
	ring := s.index[e.cpu]
	s.Events++
	s.PerCPU[ring].Events++
	s.Lost += e.lost
	if e.Kind == kindCorrupt {
		s.Corrupt++
	}
	switch {
	case e.late:
		s.Late++
		if e.time < s.newest {
			s.LatenessNS = max(s.LatenessNS, s.newest-e.time)
		}
	case e.time < s.newest:
		s.OutOfOrder++
	default:
		s.newest = e.time
	}
	s.byRing.add(ring, e.time)
}

// endRound is called when all was read that there was to read.
func (s *summary) endRound() { s.Reordered, s.Displaced = s.byRing.endRound() }

func (s *summary) finish(slack, elapsed time.Duration, stats perfbuf.Stats) {
	s.Mode, s.SlackNS, s.elapsed = "slack", int64(slack), elapsed
	fullest := stats.Total()
	s.RingUse = math.Round(1000*100*float64(fullest.HighWater)/float64(fullest.Size)) / 1000
}

// byRing finds out what would have been printed had the rings been read one
// after the other: in each round first what CPU 0 had, then CPU 1 and so on.
type byRing struct {
	times [][]uint64 // of this round's events, by ring

	last, newest uint64 // time of the event before, and the latest one
	reordered    uint64 // events with an earlier time than the one before
	displaced    uint64 // events with an earlier time than some one before
}

func (b *byRing) add(ring int, time uint64) { b.times[ring] = append(b.times[ring], time) }

func (b *byRing) endRound() (reordered, displaced uint64) {
	for ring, times := range b.times {
		for _, t := range times {
			if t < b.last {
				b.reordered++
			}
			if t < b.newest {
				b.displaced++
			}
			b.last, b.newest = t, max(b.newest, t)
		}
		b.times[ring] = times[:0]
	}
	return b.reordered, b.displaced
}
