//go:build linux && cgo

package main

import (
	"testing"

	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	// Three outputs on CPU 0, of which two were delivered; one on CPU 1, refused for another
	// reason.
	type outcome struct {
		l     *ledger
		life  life
		more  []life
		seen  []workload.CPUCounts
		exact bool
	}
	for name, c := range map[string]struct {
		change func(*outcome)
		want   []string
	}{
		"good": {func(*outcome) {}, nil},
		"an unreported loss": {func(o *outcome) { o.life.stats.Rings[0].Lost = 0 },
			[]string{"but 0 count as lost: -1"}},
		"the same before Linux 6.0": {func(o *outcome) { o.life.stats.Rings[0].Lost, o.exact = 0, false }, nil},
		"a loss too many":           {func(o *outcome) { o.life.stats.Rings[0].Lost, o.exact = 2, false }, []string{"but 2 count as lost: +1"}},
		"an event too few": {func(o *outcome) { o.seen[0].Levels[0].Attempted++; o.seen[0].Levels[0].Written++ },
			[]string{"3 outputs succeeded, but 2 were delivered + 0 dropped: -1", "level 0: 3 outputs succeeded, 2 were delivered"}},
		"miscounted": {func(o *outcome) { o.life.stats.Rings[0].Samples++ },
			[]string{"2 outputs succeeded, but 3 were delivered + 0 dropped: +1", "2 samples were delivered, Stats has 3"}},
		"dropped at Close": {func(o *outcome) {
			o.life.stats.Rings[0].Dropped = 1
			o.seen[0].Levels[1] = workload.Counts{Attempted: 1, Written: 1}
			o.life.complete = false
		}, nil},
		"dropped, though complete": {func(o *outcome) {
			o.life.stats.Rings[0].Dropped = 1
			o.seen[0].Levels[1] = workload.Counts{Attempted: 1, Written: 1}
		}, []string{"1 samples were dropped"}},
		"delivered, and dropped": {func(o *outcome) {
			o.life.complete, o.life.stats.Rings[0].Dropped = false, 1
			o.seen[0].Levels[0].Written = 1
			o.seen[0].Levels[1].Written = 2
		}, []string{"level 0: 1 outputs succeeded, 2 were delivered"}},
		"two readers": {func(o *outcome) {
			o.life.complete = false
			o.life.stats.Rings[0].Samples = 1
			o.more = []life{{mode: "exact", stats: perfbuf.Stats{Rings: []perfbuf.RingStats{{CPU: 0, Samples: 1}}}}}
		}, nil},
		"wrong interval": {func(o *outcome) {
			sampleStep(1, 0, 0, 20, false)(o.l)
			sampleStep(1, 0, 2, 21, false)(o.l)
			lossStep(1, 1, 21, 22)(o.l)
			lossStep(1, 1, 21, 23)(o.l) // by then all is explained
			o.life.stats.Rings[1].Samples, o.life.stats.Rings[1].Lost = 2, 2
			o.seen[1].Levels = [levels]workload.Counts{{Attempted: 4, Written: 2, Full: 2}}
		}, []string{"CPU 1: 1 losses were before"}},
		"loss too late": {func(o *outcome) {
			for seq := range uint64(levels + 1) { // after number 0, which was lost
				sampleStep(1, 0, 1+seq, 20+seq, false)(o.l)
			}
			lossStep(1, 1, 0, 40)(o.l)
			o.life.stats.Rings[1].Samples, o.life.stats.Rings[1].Lost = levels+1, 1
			o.seen[1].Levels = [levels]workload.Counts{{Attempted: levels + 2, Written: levels + 1, Full: 1}}
		}, []string{"CPU 1: 9 events came between"}},
		"numbers passed over before a reader was there": {func(o *outcome) {
			sampleStep(1, 0, 0, 20, false)(o.l)
			all := o.l.accounts
			o.l.accounts = all[1:]
			o.l.settled()
			o.l.accounts = all
			for seq := range uint64(levels + 1) {
				sampleStep(1, 0, 7+seq, 20+seq, false)(o.l)
			}
			o.life.stats.Rings[1].Samples = levels + 1
			o.seen[1].Levels = [levels]workload.Counts{{Attempted: levels + 1, Written: levels + 1}}
		}, nil},
		"late":            {func(o *outcome) { o.life.stats.Late, o.l.accounts[0].late = 1, 1 }, []string{"late in exact mode"}},
		"late, unseen":    {func(o *outcome) { o.life.stats.Late, o.life.mode = 1, "slack" }, []string{"Stats.Late is 1, but 0"}},
		"left in the map": {func(o *outcome) { o.life.stats.ReplacedEntries = 1 }, []string{"1 entries of the map"}},
		"a ring of no CPU": {func(o *outcome) {
			o.life.stats.Rings = append(o.life.stats.Rings, perfbuf.RingStats{CPU: 9})
		}, []string{"CPU 9 has a ring"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := outcome{l: testLedger(2), seen: make([]workload.CPUCounts, 2), exact: true}
			for seq := range uint64(2) {
				sampleStep(0, 0, seq, 10+seq, false)(o.l)
			}
			o.life = life{mode: "exact", complete: true}
			o.life.stats.Rings = []perfbuf.RingStats{{CPU: 0, Samples: 2, Lost: 1}, {CPU: 1}}
			o.seen[0].Levels[0] = workload.Counts{Attempted: 3, Written: 2, Full: 1}
			o.seen[1].Levels[2] = workload.Counts{Attempted: 1, Busy: 1}
			c.change(&o)
			require.Empty(t, o.l.first)
			got := check(o.l, append([]life{o.life}, o.more...), o.seen, o.exact)
			require.Len(t, got, len(c.want), got)
			for i, want := range c.want {
				require.Contains(t, got[i], want)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	const n = 200
	steady := func() []healthSample {
		all := make([]healthSample, n)
		for i := range all {
			all[i] = healthSample{rss: 20 << 10, heap: 2 << 10, all: 16 << 10, fds: 40, threads: 8, goroutines: 5}
		}
		return all
	}
	require.Empty(t, judge(steady(), 64<<20).Grown)
	for name, leak := range map[string]func(*healthSample, uint64){
		"resident memory":  func(s *healthSample, i uint64) { s.rss += i << 10 },
		"live heap":        func(s *healthSample, i uint64) { s.heap += i << 10 },
		"file descriptors": func(s *healthSample, i uint64) { s.fds += i },
		"threads":          func(s *healthSample, i uint64) { s.threads += i },
		"goroutines":       func(s *healthSample, i uint64) { s.goroutines += i },
		"memory of Go":     func(s *healthSample, i uint64) { s.all += i << 10 },
	} {
		all := steady()
		for i := range all {
			leak(&all[i], uint64(i))
		}
		got := judge(all, 0).Grown
		require.Len(t, got, 1, name)
		require.Contains(t, got[0], name)
		require.Equal(t, name != "file descriptors", len(judge(all, -1).Grown) == 0, name)
		require.Empty(t, judge(all[:fewest-1], 0).Grown, "too few to tell")
	}
	over := steady()
	for i := range over {
		over[i].all = 100 << 10
	}
	require.Len(t, judge(over, 64<<20).Grown, 1)
	over[0].rss = 1 << 40 // while it warms up
	require.Empty(t, judge(over, 0).Grown)
}
