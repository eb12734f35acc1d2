package top

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at makes a snapshot, so long after the beginning.
func at(after time.Duration, rings ...perfbuf.RingStats) snapshot {
	return snapshot{at: began.Add(after), stats: perfbuf.Stats{Rings: rings}, last: noCPU}
}

func TestFrameRates(t *testing.T) {
	ring := func(cpu int, samples, bytes, lost uint64) perfbuf.RingStats {
		return perfbuf.RingStats{CPU: cpu, Size: 4096, Samples: samples, Bytes: bytes, Lost: lost}
	}
	for name, c := range map[string]struct {
		before, now snapshot
		rows        [][3]float64 // events, bytes, lost
		total       [3]float64
	}{
		"two rings": {
			at(time.Second, ring(0, 100, 1000, 0), ring(1, 10, 100, 5)), at(3*time.Second, ring(0, 300, 5000, 8), ring(1, 10, 100, 5)),
			[][3]float64{{100, 2000, 4}, {0, 0, 0}}, [3]float64{100, 2000, 4},
		},
		"half a second":                  {at(0, ring(0, 0, 0, 0)), at(time.Second/2, ring(0, 7, 70, 1)), [][3]float64{{14, 140, 2}}, [3]float64{14, 140, 2}},
		"no time between":                {at(time.Second, ring(0, 1, 1, 1)), at(time.Second, ring(0, 9, 9, 9)), [][3]float64{{}}, [3]float64{}},
		"a CPU has come":                 {at(0, ring(0, 5, 5, 0)), at(time.Second, ring(0, 6, 6, 0), ring(7, 3, 30, 0)), [][3]float64{{1, 1, 0}, {3, 30, 0}}, [3]float64{4, 31, 0}},
		"a loss turned out to be less":   {at(0, ring(0, 5, 5, 10)), at(time.Second, ring(0, 6, 6, 8)), [][3]float64{{1, 1, 0}}, [3]float64{1, 1, 0}},
		"compared with nothing, the end": {snapshot{at: began}, at(10*time.Second, ring(3, 50, 500, 10)), [][3]float64{{5, 50, 1}}, [3]float64{5, 50, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrame(began, c.before, c.now)
			var rows [][3]float64
			for _, r := range f.rows {
				rows = append(rows, [3]float64{r.events, r.bytes, r.lost})
			}
			require.Equal(t, c.rows, rows)
			require.Equal(t, c.total, [3]float64{f.total.events, f.total.bytes, f.total.lost})
			require.Equal(t, c.now.at.Sub(began), f.elapsed)
			require.Equal(t, c.now.at.Sub(c.before.at), f.interval)
		})
	}
}

func TestFrameChoices(t *testing.T) {
	before, now := at(0, perfbuf.RingStats{CPU: 0}, perfbuf.RingStats{CPU: 1}), at(time.Second, perfbuf.RingStats{CPU: 0}, perfbuf.RingStats{CPU: 1})
	before.first = map[int]uint64{0: 10}
	now.first, now.last = map[int]uint64{0: 13, 1: 1}, 1
	f := newFrame(began, before, now)
	require.EqualValues(t, 4, f.choices)
	require.Equal(t, []float64{0.75, 0.25}, []float64{f.rows[0].first, f.rows[1].first})
	require.False(t, f.rows[0].last)
	require.True(t, f.rows[1].last)

	f = newFrame(began, now, now)
	require.Zero(t, f.choices)
	require.False(t, f.rows[1].last, "of another time")
}

func TestFrameRefused(t *testing.T) {
	before, now := at(0), at(2*time.Second)
	now.stats.Outputs.CPUs = []perfbuf.CPUOutputs{{Attempted: 10, Written: 3, Full: 1, NoRing: 6}, {CPU: 1, Attempted: 5, Written: 1, Nested: 4}}
	now.stats.Wakes = 7
	f := newFrame(began, before, now)
	require.Equal(t, 5.0, f.refused)
	require.Equal(t, 3.5, f.wakes)
}

func TestSorted(t *testing.T) {
	f := newFrame(began, at(0), at(time.Second,
		perfbuf.RingStats{CPU: 0, Size: 100, Used: 1, HighWater: 90},
		perfbuf.RingStats{CPU: 1, Size: 100, Used: 50},
		perfbuf.RingStats{CPU: 2, Size: 100, Used: 1, HighWater: 95},
		perfbuf.RingStats{CPU: 3, Size: 10, Used: 9},
		perfbuf.RingStats{CPU: 4, Size: 100, Used: 1, HighWater: 90}))
	cpus := func(rows []row) (cpus []int) {
		for _, r := range rows {
			cpus = append(cpus, r.CPU)
		}
		return cpus
	}
	require.Equal(t, []int{3, 1, 2, 0, 4}, cpus(f.sorted(byFullness)))
	require.Equal(t, []int{0, 1, 2, 3, 4}, cpus(f.sorted(byCPU)))
}

func TestPicks(t *testing.T) {
	p := newPicks(perfbuf.FullestFirst)
	first, last := p.counts()
	require.Empty(t, first)
	require.Equal(t, noCPU, last)
	for _, used := range [][2]int{{5, 6}, {7, 6}, {1, 9}} {
		loads := []perfbuf.Load{{CPU: 3, Size: 10, Used: used[0]}, {CPU: 4, Size: 10, Used: used[1]}}
		p.order(loads)
		require.GreaterOrEqual(t, loads[0].Used, loads[1].Used)
	}
	first, last = p.counts()
	require.Equal(t, map[int]uint64{3: 1, 4: 2}, first)
	require.Equal(t, 4, last)
}
