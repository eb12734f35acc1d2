package demo

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// TestByRing compares what reading ring by ring would do with doing it.
func TestByRing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		cpus := []int{0, 2, 3, 7}[:1+r.IntN(4)]
		s := newSummary(config{}, cpus)
		var printed []uint64
		now := uint64(1000)
		for range r.IntN(10) { // rounds
			round := map[int][]uint64{}
			for range r.IntN(20) {
				now += uint64(r.IntN(3))
				e := event{TimeNS: now, CPU: cpus[r.IntN(len(cpus))]}
				if r.IntN(10) == 0 {
					e.TimeNS -= uint64(r.IntN(50))
					e.Late = e.TimeNS < s.newest
				}
				s.add(&e, now)
				round[e.CPU] = append(round[e.CPU], e.TimeNS)
			}
			s.endRound()
			for _, cpu := range cpus {
				printed = append(printed, round[cpu]...)
			}
		}
		reordered, overtaken := uint64(0), uint64(0)
		for i := 1; i < len(printed); i++ {
			if printed[i] < printed[i-1] {
				reordered++
			}
			if printed[i] < slices.Max(printed[:i]) {
				overtaken++
			}
		}
		require.Equal(t, []uint64{reordered, overtaken, uint64(len(printed)), 0}, []uint64{s.Reordered, s.Overtaken, s.Events, s.OutOfOrder})
	}
}

func TestSummaryChecksOrder(t *testing.T) {
	s := newSummary(config{mode: slack}, []int{0, 1})
	for _, e := range []event{
		{TimeNS: 10}, {TimeNS: 10, CPU: 1}, {TimeNS: 30},
		{TimeNS: 12, Late: true},
		{TimeNS: 29, CPU: 1}, // wrong
		{TimeNS: 30, Event: "lost", Lost: 4},
		{TimeNS: 30, Event: "corrupt"},
	} {
		s.add(&e, 130)
	}
	s.endRound()
	require.Equal(t, []onCPU{{0, 5}, {1, 2}}, s.PerCPU)
	require.Equal(t, []uint64{7, 1, 18, 1, 4, 1}, []uint64{s.Events, s.Late, s.LatenessNS, s.OutOfOrder, s.Lost, s.Corrupt})
	require.Equal(t, []uint64{2, 3}, []uint64{s.Reordered, s.Overtaken}) // 10 30 12 30 30, 10 29
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(text), `"overtaken":3,`)
	require.NotContains(t, string(text), "displaced") // which other tools have for entries of another reader
}

// What exact order rules out is an error, as is an event in the wrong place that does not say so.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		mode             string
		late, outOfOrder uint64
		want             string
	}{
		{exact, 0, 0, ""},
		{slack, 2, 0, ""},
		{exact, 1, 0, "1 event was late in exact mode: this is a bug"},
		{slack, 1, 2, "2 events were out of order and not marked as late: this is a bug"},
	} {
		s := newSummary(config{mode: c.mode}, []int{0})
		s.Late, s.OutOfOrder = c.late, c.outOfOrder
		if err := s.verdict(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}

func TestFinish(t *testing.T) {
	s := newSummary(config{mode: exact}, []int{0, 1})
	s.add(&event{TimeNS: 30}, 42)
	s.add(&event{TimeNS: 50, CPU: 2}, 49) // of a CPU that has come; clocks of CPUs differ a little
	s.finish(time.Second, perfbuf.Stats{
		Rings:        []perfbuf.RingStats{{Size: 4096, HighWater: 1024, Samples: 7, Lost: 3, Dropped: 1}, {Size: 4096, Samples: 2}},
		SpilledBytes: 64,
		Barrier:      perfbuf.BarrierStats{Provider: "p", Count: 4, Failed: 1, P50: 2, P99: 3, Max: 5},
	})
	require.Equal(t, []uint64{9, 3, 1, 13, 64}, []uint64{s.Samples, s.Lost, s.Unread, s.Outputs, s.SpilledBytes})
	require.Equal(t, &barriers{"p", 4, 1, 2, 3, 5}, s.Barriers)
	require.Equal(t, []uint64{0, 12}, []uint64{s.LatencyP50NS, s.LatencyP99NS})
	require.InDelta(t, 25, s.RingUse, 0)
	require.Equal(t, onCPU{2, 1}, s.PerCPU[2])
}
