package kernel

import (
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/stretchr/testify/require"
)

// countedBefore is a LossCounter with fixed losses.
type countedBefore []CPULosses

func (c countedBefore) Losses(into []CPULosses) []CPULosses { return append(into, c...) }

// Counted losses are ordered behind events from before the first of them, even at time 0.
func TestCountedLosses(t *testing.T) {
	c := countedBefore{{CPU: 3, Count: 2, First: 5, Last: 7}, {CPU: -1, Count: 1}}
	require.Equal(t, []raw.Odd{
		{Kind: raw.Lost, CPU: 3, Lost: 2, After: 4, Time: 9, Counted: true},
		{Kind: raw.Lost, CPU: -1, Lost: 1, Time: 9, Counted: true},
	}, CountedLosses(c, nil, func() uint64 { return 9 }))
}
