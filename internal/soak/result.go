//go:build linux && cgo

package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/ringfold/ringfold/internal/quantile"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// result is the last line of output. Times are in us.
type result struct {
	Mode string `json:"mode"`
	// Attempted is delivered + dropped + lost + refused, on each CPU; by map with -changes.
	Conserved  bool      `json:"conserved"`
	Broken     uint64    `json:"violation_count"` // of anything that is checked
	Events     uint64    `json:"events"`          // that were delivered, of all kinds but markers
	Attempted  uint64    `json:"attempted"`       // outputs, as the programs count them
	Delivered  uint64    `json:"delivered"`       // samples
	Lost       uint64    `json:"lost"`
	Dropped    uint64    `json:"dropped"` // in rings and streams at Close, and late with -drop-late
	Late       uint64    `json:"late"`
	OutOfOrder uint64    `json:"out_of_order"` // without a mark
	Gaps       uint64    `json:"gaps"`         // losses that were delivered
	Spilled    uint64    `json:"spilled_bytes"`
	Inversions uint64    `json:"inversions"`
	Barrier    quantiles `json:"barrier_us"` // of the generation with the most of them
	Latency    quantiles `json:"latency_us"` // from an event's time to its delivery

	MaxLateness  float64               `json:"max_lateness_us"`
	Refused      map[string]uint64     `json:"refused"` // by error; deep: runs without output
	Recursions   uint64                `json:"recursion_misses"`
	Corrupt      uint64                `json:"corrupt"`
	LossDelay    uint64                `json:"loss_delay"` // most events between a gap and its loss
	LossWrong    uint64                `json:"loss_wrong"` // losses in whose interval they were not
	SpillRefused uint64                `json:"spill_refused"`
	Barriers     uint64                `json:"barriers"`
	Provider     string                `json:"provider"` // of barriers; empty without exact mode
	Interval     string                `json:"interval,omitempty"`
	Slack        string                `json:"slack,omitempty"`
	Time         string                `json:"time"`
	Batches      uint64                `json:"batches"`
	Wakes        uint64                `json:"wakes"`
	CPUPercent   float64               `json:"cpu_percent"` // without the load; 100 is one CPU
	DurationS    float64               `json:"duration_s"`
	RingBytes    int                   `json:"ring_bytes"`
	HighWater    int                   `json:"high_water"`
	Cpus         int                   `json:"cpus"`
	Levels       []uint64              `json:"levels"`  // outputs attempted by nesting level
	Sources      map[string]uint64     `json:"sources"` // samples by source
	Kernel       string                `json:"kernel"`
	Seed         uint64                `json:"seed"`
	Children     uint64                `json:"children"`                 // made by this process
	Offlines     uint64                `json:"offlines,omitempty"`       // CPUs taken offline
	Reopened     uint64                `json:"rings_reopened,omitempty"` // of CPUs that came back
	Added        uint64                `json:"rings_added,omitempty"`    // of CPUs that were new
	Generations  uint64                `json:"generations"`              // readers opened in turn
	Pauses       uint64                `json:"pauses"`
	Changes      uint64                `json:"changes"` // sources that went and came back
	Flushes      uint64                `json:"flushes"`
	Markers      uint64                `json:"markers"`         // calls of Flush that were answered
	Checked      uint64                `json:"markers_checked"` // program counts compared
	Modes        []*modeResult         `json:"modes"`
	Maps         map[string]*mapResult `json:"maps,omitempty"` // of -mode sources; summed up above
	Resources    resources             `json:"resources"`
	Violations   []string              `json:"violations,omitempty"`
}

// modeResult is the result of one mode.
type modeResult struct {
	Mode        string    `json:"mode"`
	Conserved   bool      `json:"conserved"` // delivered + dropped + lost, unless -changes
	Outputs     uint64    `json:"outputs"`   // that succeeded or found no room
	Delivered   uint64    `json:"delivered"`
	Dropped     uint64    `json:"dropped"`
	Lost        uint64    `json:"lost"`
	Refused     uint64    `json:"refused"` // for other reasons: no ring while paused or reopening
	Late        uint64    `json:"late"`
	Generations uint64    `json:"generations"`
	Streams     uint64    `json:"streams,omitempty"`
	Shutdowns   uint64    `json:"shutdowns"`
	Closes      uint64    `json:"closes"`  // by another goroutine, while one reads
	Reopens     uint64    `json:"reopens"` // by the event function, which also opens the next
	Pauses      uint64    `json:"pauses"`
	Changes     uint64    `json:"changes,omitempty"`
	Spilled     uint64    `json:"spilled_bytes"`
	Latency     quantiles `json:"latency_us"`
	Seconds     float64   `json:"seconds"`
	Violations  uint64    `json:"violations"`
	Unsettled   uint64    `json:"unsettled"` // looks during a change of the programs' counts

	tally
	stats   perfbuf.Stats // sums, or the greatest
	latency quantile.Histogram
	sources [8]uint64
	delay   uint64
	wrong   uint64
	maps    map[string]*mapResult

	barriers uint64
	barrier  perfbuf.BarrierStats // of the generation with the most of them
	interval time.Duration        // between barriers, of the latest generation
}

type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func quantilesOf(ns *quantile.Histogram) quantiles {
	return quantiles{float64(ns.Quantile(0.5)) / 1e3, float64(ns.Quantile(0.99)) / 1e3, float64(ns.Max()) / 1e3}
}

// add takes the accounts of some generations over.
func (m *modeResult) add(l *ledger, group []*generation, lives []life, seen []workload.CPUCounts) {
	for i := range l.accounts {
		a := &l.accounts[i]
		m.tally.add(&a.tally)
		m.latency.Merge(&a.latency)
		for source, n := range a.sources {
			m.sources[source] += n
		}
		if explained(lives) {
			m.delay = max(m.delay, a.delay)
			m.wrong += a.wrong
		}
	}
	for i, g := range group {
		m.Generations++
		if g.ordered {
			m.Streams += uint64(g.streams)
			m.interval = g.stream.Options().BarrierInterval
		}
		m.Pauses += g.pauses.Load()
		if g.changes != nil {
			m.Changes += g.changes.n.Load()
		}
		switch g.end {
		case shutdown:
			m.Shutdowns++
		case closed:
			m.Closes++
		case reopened:
			m.Reopens++
		}
		b := lives[i].stats.Barrier
		if m.barriers += b.Count; b.Count > m.barrier.Count {
			m.barrier = b
		}
		for _, stats := range lives[i].all() {
			m.stats = sumStats(m.stats, stats)
		}
		if lives[i].more != nil {
			if m.maps == nil {
				m.maps = map[string]*mapResult{}
			}
			l.results(m.maps, lives[i].all(), seen)
		}
	}
	for cpu := range seen {
		sum := seen[cpu].Sum()
		m.Outputs += sum.Written + sum.Full
		m.Refused += sum.Uncounted()
	}
	m.Delivered, m.Late, m.Latency = m.samples, m.late, quantilesOf(&m.latency)
	ring := m.stats.Total()
	m.Lost, m.Dropped, m.Spilled = ring.Lost, ring.Dropped, m.stats.SpilledBytes
}

// sumStats sums up the checked statistics. All rings become one.
func sumStats(sum, s perfbuf.Stats) perfbuf.Stats {
	s.Rings = []perfbuf.RingStats{perfbuf.Stats{Rings: slices.Concat(sum.Rings, s.Rings)}.Total()}
	s.Hotplug.Reopened += sum.Hotplug.Reopened
	s.Hotplug.Added += sum.Hotplug.Added
	s.Late += sum.Late
	s.MaxLateness = max(s.MaxLateness, sum.MaxLateness)
	s.Wakes += sum.Wakes
	s.Passes += sum.Passes
	s.Inversions += sum.Inversions
	s.SpilledBytes += sum.SpilledBytes
	s.SpillRefused += sum.SpillRefused
	return s
}

// result sums up. seen holds the programs' total counts.
func (s *session) result(seen []workload.CPUCounts) *result {
	elapsed := s.ended.Sub(s.began)
	res := &result{
		Mode: s.c.mode, Time: s.c.time, Cpus: len(s.cpus), DurationS: elapsed.Seconds(), RingBytes: s.c.ringBytes,
		CPUPercent: 100 * s.cpuUsed.Seconds() / elapsed.Seconds(), Recursions: s.p.recursions, Seed: s.c.seed,
		Sources: map[string]uint64{}, Conserved: true, OutOfOrder: s.l.outOfOrder,
		Children: s.spawn.children.Load(), Flushes: s.l.markers.calls, Markers: s.l.markers.answered, Checked: s.l.markers.checked, Offlines: s.offlines,
	}
	switch s.c.mode {
	case "exact", "sources":
		res.Interval = max(s.modes[s.c.mode].interval, 0).String()
	case "slack":
		res.Slack = s.c.slack.String()
	}
	res.Kernel, _ = kernel()
	var latency quantile.Histogram
	most := uint64(0)
	for _, name := range modeNames {
		m := s.modes[name]
		if m == nil {
			continue
		}
		res.Modes = append(res.Modes, m)
		if m.maps != nil {
			res.Maps = m.maps
		}
		res.Events += m.events
		res.Delivered += m.Delivered
		res.Lost += m.Lost
		res.Dropped += m.Dropped
		res.Late += m.Late
		res.Gaps += m.losses
		res.Spilled += m.Spilled
		res.Inversions += m.stats.Inversions
		res.MaxLateness = max(res.MaxLateness, us(m.stats.MaxLateness))
		ring := m.stats.Total()
		res.Corrupt += ring.Corrupt
		res.LossDelay = max(res.LossDelay, m.delay)
		res.LossWrong += m.wrong
		res.SpillRefused += m.stats.SpillRefused
		res.Batches += m.stats.Passes
		res.Wakes += m.stats.Wakes
		res.Reopened += m.stats.Hotplug.Reopened
		res.Added += m.stats.Hotplug.Added
		res.HighWater = max(res.HighWater, ring.HighWater)
		res.Generations += m.Generations
		res.Pauses += m.Pauses
		res.Changes += m.Changes
		latency.Merge(&m.latency)
		for _, source := range traced {
			res.Sources[source.String()] += m.sources[source]
		}
		b := m.barrier
		if res.Barriers += m.barriers; b.Count > most {
			most = b.Count
			res.Barrier, res.Provider = quantiles{us(b.P50), us(b.P99), us(b.Max)}, b.Provider
		}
	}
	res.Latency = quantilesOf(&latency)
	s.attempts(res, seen)
	return res
}

// attempts compares attempted outputs with their outcomes.
func (s *session) attempts(res *result, seen []workload.CPUCounts) {
	for _, w := range workload.Agree(seen) {
		s.l.violate("%s", w)
	}
	if res.Delivered == 0 {
		s.l.violate("nothing was delivered")
	}
	var sum workload.Counts
	deep := uint64(0)
	res.Levels = make([]uint64, levels)
	for cpu := range seen {
		deep += seen[cpu].Deep
		for level := range seen[cpu].Levels {
			sum.Add(&seen[cpu].Levels[level])
			res.Levels[level] += seen[cpu].Levels[level].Attempted
		}
	}
	for len(res.Levels) > 0 && res.Levels[len(res.Levels)-1] == 0 {
		res.Levels = res.Levels[:len(res.Levels)-1]
	}
	res.Attempted = sum.Attempted
	res.Refused = map[string]uint64{"ebusy": sum.Busy, "enoent": sum.NoRing, "off": sum.Off, "other": sum.Other, "deep": deep}
	if err := sum.Balance(workload.Outcome{Delivered: res.Delivered, Dropped: res.Dropped, Lost: res.Lost}, s.exact); err != nil && res.Changes == 0 {
		s.l.violate("%v", err)
		res.Conserved = false
	}
	if !s.c.pauses && !s.c.changes && !s.c.hotplug && res.Generations == 1 && sum.NoRing+sum.Off > 0 {
		s.l.violate("%d outputs found no ring, %d found it off, though programs ran only while the reader was open", sum.NoRing, sum.Off)
	}
}

// conclude gives the verdict.
func (res *result) conclude(l *ledger) {
	for _, m := range res.Modes {
		res.Conserved = res.Conserved && m.Conserved
	}
	res.Broken, res.Violations = l.violations, l.first
	if more := l.violations - uint64(len(l.first)); more > 0 {
		res.Violations = append(res.Violations, fmt.Sprintf("and %d more", more))
	}
}

// kernel returns the release, and the first number in it.
func kernel() (release string, major int) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "", 0
	}
	release = string(bytes.TrimRight(u.Release[:], "\x00"))
	fmt.Sscanf(release, "%d", &major)
	return release, major
}
