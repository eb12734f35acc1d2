package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByRing compares what reading ring by ring would do with doing it.
func TestByRing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		cpus := []int{0, 2, 3, 7}[:1+r.IntN(4)]
		s := newSummary(cpus)
		var printed []uint64
		now := uint64(1000)
		for range r.IntN(10) { // rounds
			round := map[int][]uint64{}
			for range r.IntN(20) {
				now += uint64(r.IntN(3))
				e := event{time: now, cpu: cpus[r.IntN(len(cpus))]}
				if r.IntN(10) == 0 {
					e.time -= uint64(r.IntN(50))
					e.late = e.time < s.newest
				}
				s.add(&e)
				round[e.cpu] = append(round[e.cpu], e.time)
			}
			s.endRound()
			for _, cpu := range cpus {
				printed = append(printed, round[cpu]...)
			}
		}
		reordered, displaced := uint64(0), uint64(0)
		for i := 1; i < len(printed); i++ {
			if printed[i] < printed[i-1] {
				reordered++
			}
			if printed[i] < slices.Max(printed[:i]) {
				displaced++
			}
		}
		require.Equal(t, []uint64{reordered, displaced, uint64(len(printed)), 0}, []uint64{s.Reordered, s.Displaced, s.Events, s.OutOfOrder})
	}
}

func TestSummaryChecksOrder(t *testing.T) {
	s := newSummary([]int{0, 1})
	for _, e := range []event{
		{time: 10}, {time: 10, cpu: 1}, {time: 30},
		{time: 12, late: true},
		{time: 29, cpu: 1}, // wrong
		{time: 30, lost: 4, payload: payload{Kind: kindLost}},
		{time: 30, payload: payload{Kind: kindCorrupt}},
	} {
		s.add(&e)
	}
	s.endRound()
	require.Equal(t, []onCPU{{0, 5}, {1, 2}}, s.PerCPU)
	require.Equal(t, []uint64{7, 1, 18, 1, 4, 1}, []uint64{s.Events, s.Late, s.LatenessNS, s.OutOfOrder, s.Lost, s.Corrupt})
	require.Equal(t, []uint64{2, 3}, []uint64{s.Reordered, s.Displaced}) // 10 30 12 30 30, 10 29
}
