//go:build linux && cgo

package main

import (
	"fmt"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
)

// life holds a reader's counts from Open to Close.
type life struct {
	stats    perfbuf.Stats
	more     []perfbuf.Stats // of the other maps
	mode     string
	complete bool // it ended so that all was delivered
	dropLate bool
	paused   bool // some outputs may have been refused in between, on purpose
	broken   bool // something in between was dropped
}

func (g *generation) life(hotplug bool) life {
	var more []perfbuf.Stats
	for m, r := range g.more {
		stats := r.Stats()
		if g.changes != nil {
			stats = sumStats(g.changes.closed[m+1], stats)
		}
		more = append(more, stats)
	}
	return life{
		stats: g.r.Stats(), more: more, mode: g.mode, dropLate: g.dropLate,
		complete: (g.end == shutdown || g.end == drained) && g.streams <= 1 && !g.dropLate,
		paused:   g.pausing || hotplug, broken: g.streams > 1 || g.dropLate,
	}
}

// all is the counts of all maps.
func (l *life) all() []perfbuf.Stats { return append([]perfbuf.Stats{l.stats}, l.more...) }

// verdict describes the violations.
type verdict []string

func (v *verdict) no(format string, args ...any) { *v = append(*v, fmt.Sprintf(format, args...)) }

// check compares three accounts once nothing outputs to the readers: deliveries, the readers'
// counts, and the programs' counts since before the first Open. exact says that the kernel reports
// losses that no record has reported.
func check(l *ledger, lives []life, seen []workload.CPUCounts, exact bool) (v verdict) {
	if len(lives) == 1 && lives[0].more != nil {
		v.conservedMaps(l, &lives[0], seen, exact)
		return v
	}
	rings := map[int]perfbuf.RingStats{}
	var late, lateSeen uint64
	complete, dropLate, placed := true, false, explained(lives)
	for _, life := range lives {
		if life.mode == "exact" && life.stats.Late > 0 {
			v.no("%d events were late in exact mode, by up to %v", life.stats.Late, life.stats.MaxLateness)
		}
		if life.stats.ReplacedEntries > 0 {
			v.no("%d entries of the map held perf events at Open, though who had been there was closed", life.stats.ReplacedEntries)
		}
		late += life.stats.Late
		complete = complete && life.complete
		dropLate = dropLate || life.dropLate
		for _, r := range life.stats.Rings {
			sum := rings[r.CPU]
			sum.Samples += r.Samples
			sum.Dropped += r.Dropped
			sum.Lost += r.Lost
			rings[r.CPU] = sum
		}
	}
	for cpu := range seen {
		a, ring := &l.accounts[cpu], rings[cpu]
		delete(rings, cpu)
		lateSeen += a.late
		v.conserved(a, ring, cpu, &seen[cpu], exact)
		if complete && ring.Dropped > 0 {
			v.no("CPU %d: %d samples were dropped, though all that the ring held was to be delivered", cpu, ring.Dropped)
		}
		if sum := seen[cpu].Sum(); placed && sum.Busy+sum.Off+sum.Other == 0 { // no refusals
			v.placed(a, cpu)
		}
	}
	for cpu := range rings {
		v.no("CPU %d has a ring, and no counts", cpu)
	}
	if !dropLate && late != lateSeen {
		v.no("Stats.Late is %d, but %d late events were delivered", late, lateSeen)
	}
	return v
}

// explained checks that a reported loss explains every gap in the numbers. Losses of ring buffers
// are counted, and come later.
func explained(lives []life) bool {
	return len(lives) == 1 && lives[0].more == nil && !lives[0].paused && !lives[0].broken
}

// conserved checks the rings of one CPU: every output that they took or were too full for is
// accounted for.
func (v *verdict) conserved(a *account, ring perfbuf.RingStats, cpu int, seen *workload.CPUCounts, exact bool) {
	sum := seen.Sum()
	// Before Linux 6.0, losses that no record has reported are unknown: those at the end.
	if err := sum.Balance(workload.Outcome{Delivered: ring.Samples, Dropped: ring.Dropped, Lost: ring.Lost}, exact); err != nil {
		v.no("CPU %d: %v", cpu, err)
	}
	if a.samples != ring.Samples {
		v.no("CPU %d: %d samples were delivered, Stats has %d", cpu, a.samples, ring.Samples)
	}
	if a.lost > ring.Lost {
		v.no("CPU %d: losses that were delivered sum to %d, Stats has %d", cpu, a.lost, ring.Lost)
	}
	for level := range seen.Levels {
		if got, want := a.levels[level].samples, seen.Levels[level].Written; ring.Dropped == 0 && got != want || got > want {
			v.no("CPU %d level %d: %d outputs succeeded, %d were delivered", cpu, level, want, got)
		}
	}
}

// placed checks where in the stream one CPU's losses were.
func (v *verdict) placed(a *account, cpu int) {
	if a.delay > levels {
		v.no("CPU %d: %d events came between what is missing and the loss that explains it", cpu, a.delay)
	}
	if a.wrong > 0 {
		v.no("CPU %d: %d losses were before the time after which they are said to be", cpu, a.wrong)
	}
}
