package top

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at makes a snapshot, so long after the beginning.
func at(after time.Duration, rings ...perfbuf.RingStats) snapshot {
	return snapshot{at: began.Add(after), stats: perfbuf.Stats{Rings: rings}, last: noCPU}
}

func TestRates(t *testing.T) {
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
			for _, r := range f.Rings {
				rows = append(rows, [3]float64{r.EventsRate, r.BytesRate, r.LostRate})
			}
			require.Equal(t, c.rows, rows)
			require.Equal(t, c.total, [3]float64{f.EventsRate, f.BytesRate, f.LostRate})
			require.Equal(t, []float64{c.now.at.Sub(began).Seconds(), c.now.at.Sub(c.before.at).Seconds()}, []float64{f.Elapsed, f.Interval})
		})
	}
}

func TestChoices(t *testing.T) {
	p := newPicks()
	look := func() snapshot {
		s := at(0, perfbuf.RingStats{CPU: 3}, perfbuf.RingStats{CPU: 4})
		s.first, s.last = p.counts()
		return s
	}
	never := look()
	require.Equal(t, noCPU, never.last)
	for _, used := range [][2]int{{5, 6}, {7, 6}, {8, 2}, {1, 9}} {
		loads := []perfbuf.Load{{CPU: 3, Size: 10, Used: used[0]}, {CPU: 4, Size: 10, Used: used[1]}}
		p.order(loads)
		require.GreaterOrEqual(t, loads[0].Used, loads[1].Used)
	}
	now := look()
	f := newFrame(began, never, now)
	require.EqualValues(t, 4, f.Choices)
	require.Equal(t, []any{0.5, false, 0.5, true}, []any{f.Rings[0].First, f.Rings[0].Last, f.Rings[1].First, f.Rings[1].Last})
	f = newFrame(began, now, now)
	require.Zero(t, f.Choices)
	require.False(t, f.Rings[1].Last, "of another time")
}

func TestSorted(t *testing.T) {
	f := newFrame(began, at(0), at(time.Second,
		perfbuf.RingStats{CPU: 0, Size: 100, Used: 1, HighWater: 90},
		perfbuf.RingStats{CPU: 1, Size: 100, Used: 50},
		perfbuf.RingStats{CPU: 2, Size: 100, Used: 1, HighWater: 95},
		perfbuf.RingStats{CPU: 3, Size: 10, Used: 9},
		perfbuf.RingStats{CPU: 4, Size: 100, Used: 1, HighWater: 90}))
	for byFullness, want := range map[bool][]int{true: {3, 1, 2, 0, 4}, false: {0, 1, 2, 3, 4}} {
		var cpus []int
		for _, r := range f.sorted(byFullness) {
			cpus = append(cpus, r.CPU)
		}
		require.Equal(t, want, cpus)
	}
}

// Every key of JSON gets its value from somewhere, and is documented.
func TestJSONIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/tool.md")
	require.NoError(t, err)
	now := at(2*time.Second, perfbuf.RingStats{CPU: 1, Size: 100, Used: 10, HighWater: 20, Samples: 30, Bytes: 40, Lost: 50, Shed: 55, Dropped: 60, Corrupt: 70, Armed: true})
	now.mode, now.paused, now.problem, now.first, now.last = source.Exact, true, "something", map[int]uint64{1: 3}, 1
	s := &now.stats
	s.Late, s.MaxLateness, s.SpilledBytes, s.SpillUsed, s.Wakes, s.Passes, s.ReplacedEntries = 1, time.Second, 2, 3, 7, 4, 5
	s.Displaced.Entries = 10
	s.Doorbell.Armed, s.Doorbell.Polls, s.Doorbell.Err = 1, 5, errors.New("none")
	s.Barrier = perfbuf.BarrierStats{Provider: "p", Count: 1, Failed: 2, P50: 3, P99: 4, Max: 5, Stalled: 6}
	s.Outputs.CPUs = []perfbuf.CPUOutputs{{Attempted: 10, Written: 3, Full: 1, NoRing: 5, Nested: 1}, {CPU: 1, Attempted: 5, Written: 1, Nested: 4}}
	before := at(0, perfbuf.RingStats{CPU: 1})
	before.names, now.names = []string{"events"}, []string{"events"}
	f := newFrame(began, before, now)
	require.Equal(t, []float64{5, 3.5}, []float64{f.refused, f.wakes})

	var out bytes.Buffer
	require.NoError(t, printer{out: &out, format: cli.JSON}.final(f))
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")))
	var last struct{ Summary frame }
	require.NoError(t, json.Unmarshal(out.Bytes(), &last))
	require.EqualValues(t, 5, last.Summary.Outputs.Other)
	keys := 0
	var complete func(reflect.Value)
	complete = func(v reflect.Value) {
		for i, field := range reflect.VisibleFields(v.Type()) {
			key := field.Tag.Get("json")
			if key == "" {
				continue
			}
			keys++
			require.Contains(t, string(page), "`"+key+"`", i)
			value := v.FieldByIndex(field.Index)
			require.False(t, value.IsZero(), key)
			switch value.Kind() {
			case reflect.Slice:
				value = value.Index(0)
			case reflect.Pointer:
				value = value.Elem()
			}
			if value.Kind() == reflect.Struct && key != "time" {
				complete(value)
			}
		}
	}
	complete(reflect.ValueOf(last.Summary))
	require.Greater(t, keys, 40)
}
