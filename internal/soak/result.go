//go:build linux && cgo

package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"golang.org/x/sys/unix"
)

// result is the last line of output. Times are in us.
type result struct {
	Mode       string    `json:"mode"`
	Events     uint64    `json:"events"`    // that the stream delivered, of all kinds
	Attempted  uint64    `json:"attempted"` // outputs, as the programs count them
	Delivered  uint64    `json:"delivered"` // samples
	Lost       uint64    `json:"lost"`
	Dropped    uint64    `json:"dropped"` // late ones, with -drop-late
	Late       uint64    `json:"late"`
	OutOfOrder uint64    `json:"out_of_order"` // without a mark
	Gaps       uint64    `json:"gaps"`         // losses that the stream delivered
	Spilled    uint64    `json:"spilled_bytes"`
	Inversions uint64    `json:"inversions"`
	Barrier    quantiles `json:"barrier_us"`
	Latency    quantiles `json:"latency_us"` // from an event's time to its delivery, each by the clock

	MaxLateness  float64           `json:"max_lateness_us"`
	Refused      map[string]uint64 `json:"refused"` // outputs that the kernel does not count as lost, by error
	Recursions   uint64            `json:"recursion_misses"`
	Corrupt      uint64            `json:"corrupt"`
	LossDelay    uint64            `json:"loss_delay"` // most events between what is missing and its loss
	LossWrong    uint64            `json:"loss_wrong"` // losses in whose interval they were not
	SpillRefused uint64            `json:"spill_refused"`
	Barriers     uint64            `json:"barriers"`
	Provider     string            `json:"provider,omitempty"`
	Interval     string            `json:"interval,omitempty"`
	Slack        string            `json:"slack,omitempty"`
	Time         string            `json:"time"`
	Batches      uint64            `json:"batches"`
	Wakes        uint64            `json:"wakes"`
	CPUPercent   float64           `json:"cpu_percent"` // of this process, without the load; 100 is one CPU
	DurationS    float64           `json:"duration_s"`
	RingBytes    int               `json:"ring_bytes"`
	HighWater    int               `json:"high_water"`
	Cpus         int               `json:"cpus"`
	Levels       []uint64          `json:"levels"`  // outputs attempted by nesting level
	Sources      map[string]uint64 `json:"sources"` // samples by what they come from
	Kernel       string            `json:"kernel"`
	Violations   []string          `json:"violations,omitempty"`
}

type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// fill holds three accounts against each other: what was delivered, what the reader counted, and
// what the programs saw happen.
func (res *result) fill(l *ledger, stats perfbuf.Stats, seen []perCPU) {
	t := stats.Total()
	res.Events, res.Delivered, res.Lost, res.Dropped = l.events, l.samples, t.Lost, t.Dropped
	res.Late, res.OutOfOrder, res.Gaps, res.Corrupt = l.late, l.outOfOrder, l.losses, t.Corrupt
	res.Spilled, res.SpillRefused, res.Inversions = stats.SpilledBytes, stats.SpillRefused, stats.Inversions
	res.MaxLateness, res.Wakes, res.HighWater = us(stats.MaxLateness), stats.Wakes, t.HighWater
	b := stats.Barrier
	res.Barriers, res.Provider = b.Count, b.Provider
	res.Barrier = quantiles{us(b.P50), us(b.P99), us(b.Max)}
	res.Sources = map[string]uint64{}
	for i, name := range sources {
		res.Sources[name] = l.sources[i+1]
	}
	h := &l.latency
	res.Latency = quantiles{us(h.quantile(0.5)), us(h.quantile(0.99)), us(time.Duration(h.max))}
	release, major := kernel()
	res.Kernel = release
	res.verify(l, stats, seen, major >= 6)
}

// verify checks what must hold at the end. exact says that the kernel tells of losses that no record
// has reported.
func (res *result) verify(l *ledger, stats perfbuf.Stats, seen []perCPU, exact bool) {
	if res.Mode == "exact" && stats.Late > 0 {
		l.violate("%d events were late in exact mode, by up to %v", stats.Late, stats.MaxLateness)
	}
	if l.samples == 0 {
		l.violate("nothing was delivered")
	}
	if dropped := stats.Total().Dropped; stats.Late != l.late+dropped {
		l.violate("Stats.Late is %d, but %d late events were delivered and %d dropped", stats.Late, l.late, dropped)
	}
	res.Refused = map[string]uint64{"ebusy": 0, "enoent": 0, "other": 0, "deep": 0}
	rings := map[int]perfbuf.RingStats{}
	for _, r := range stats.Rings {
		rings[r.CPU] = r
	}
	res.Levels = make([]uint64, levels)
	for cpu, w := range seen {
		ring, a := rings[cpu], l.cpu(cpu)
		delete(rings, cpu)
		var sum slot
		for level, s := range w.Slots {
			res.Levels[level] += s.Attempted
			sum.add(&s)
			if got := a.levels[level].samples; ring.Dropped == 0 && got != s.OK {
				l.violate("CPU %d level %d: %d outputs succeeded, %d were delivered", cpu, level, s.OK, got)
			}
		}
		res.Attempted += sum.Attempted
		res.Refused["ebusy"] += sum.EBUSY
		res.Refused["enoent"] += sum.ENOENT
		res.Refused["other"] += sum.Other
		res.Refused["deep"] += w.Deep
		uncounted := sum.EBUSY + sum.ENOENT + sum.Other
		res.conserve(l, a, ring, cpu, sum.Attempted-uncounted, exact)
		if sum.Attempted != sum.OK+sum.ENOSPC+uncounted {
			l.violate("CPU %d: the programs do not agree with themselves: %+v", cpu, sum.counts())
		}
		if exact && ring.Lost != sum.ENOSPC || ring.Lost > sum.ENOSPC {
			l.violate("CPU %d: Stats.Lost is %d, and %d outputs failed with ENOSPC", cpu, ring.Lost, sum.ENOSPC)
		}
		if uncounted == 0 && ring.Dropped == 0 { // else what is missing was not all lost
			res.place(l, a, cpu)
		}
	}
	for len(res.Levels) > 0 && res.Levels[len(res.Levels)-1] == 0 {
		res.Levels = res.Levels[:len(res.Levels)-1]
	}
	for cpu := range rings {
		l.violate("CPU %d has a ring, and no counts", cpu)
	}
	res.Violations = l.first
	if more := l.violations - uint64(len(l.first)); more > 0 {
		res.Violations = append(res.Violations, fmt.Sprintf("and %d more", more))
	}
}

// place checks where in the stream one CPU's losses were.
func (res *result) place(l *ledger, a *account, cpu int) {
	res.LossDelay = max(res.LossDelay, a.delay)
	res.LossWrong += a.wrong
	if a.delay > levels {
		l.violate("CPU %d: %d events came between what is missing and the loss that explains it", cpu, a.delay)
	}
	if a.wrong > 0 {
		l.violate("CPU %d: %d losses were before the time after which they are said to be", cpu, a.wrong)
	}
}

// conserve checks one ring: every output that it took or was too full for is accounted for.
func (res *result) conserve(l *ledger, a *account, ring perfbuf.RingStats, cpu int, outputs uint64, exact bool) {
	accounted := ring.Samples + ring.Dropped + ring.Lost
	// Before Linux 6.0, losses that no record has reported are unknown: those at the end.
	if exact && accounted != outputs || accounted > outputs {
		l.violate("CPU %d: %d outputs, but %d samples + %d dropped + %d lost = %d",
			cpu, outputs, ring.Samples, ring.Dropped, ring.Lost, accounted)
	}
	if a.samples != ring.Samples {
		l.violate("CPU %d: %d samples were delivered, Stats has %d", cpu, a.samples, ring.Samples)
	}
	if a.lost > ring.Lost {
		l.violate("CPU %d: losses that were delivered sum to %d, Stats has %d", cpu, a.lost, ring.Lost)
	}
}

func (s *slot) add(o *slot) {
	s.Attempted += o.Attempted
	s.OK += o.OK
	s.ENOSPC += o.ENOSPC
	s.EBUSY += o.EBUSY
	s.ENOENT += o.ENOENT
	s.Other += o.Other
}

func (s *slot) counts() map[string]uint64 {
	return map[string]uint64{
		"attempted": s.Attempted, "ok": s.OK,
		"enospc": s.ENOSPC, "ebusy": s.EBUSY, "enoent": s.ENOENT, "other": s.Other,
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
