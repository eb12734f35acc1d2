package perfevent

import (
	"errors"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// Counts start at newOutputs. A failed look reports the error and keeps the counts; after close
// they stay.
func TestOutputs(t *testing.T) {
	var none *outputs
	require.Equal(t, kernel.Outputs{}, none.look())
	none.close()

	now := kernel.Outputs{RecursionMisses: 100, CPUs: []kernel.CPUOutputs{
		{CPU: 0, Attempted: 44, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7},
		{CPU: 10, Attempted: 1000},
	}}
	var fails error
	reads, freed := 0, 0
	o, err := newOutputs(func() (kernel.Outputs, error) {
		reads++
		s := now
		s.CPUs = slices.Clone(s.CPUs)
		return s, fails
	}, func() { freed++ })
	require.NoError(t, err)
	require.Equal(t, kernel.Outputs{CPUs: []kernel.CPUOutputs{{CPU: 0}, {CPU: 10}}}, o.look())
	now.RecursionMisses, now.CPUs = 103, []kernel.CPUOutputs{
		{CPU: 0, Attempted: 2 * 44, Written: 2, Full: 4, NoRing: 6, Nested: 8, Offline: 10, NoEntry: 12, TooLarge: 16, Other: 14},
		{CPU: 10, Attempted: 1001, Written: 1},
	}
	want := kernel.Outputs{RecursionMisses: 3, CPUs: []kernel.CPUOutputs{
		{CPU: 0, Attempted: 44, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7},
		{CPU: 10, Attempted: 1, Written: 1},
	}}
	require.Equal(t, want, o.look())

	fails = errors.New("not now")
	now.RecursionMisses++
	want.Err = fails
	require.Equal(t, want, o.look())
	fails, want.Err = nil, nil
	want.RecursionMisses++
	require.Equal(t, want, o.look())

	o.look().CPUs[0].CPU = 99
	o.close()
	require.Equal(t, 1, freed)
	count := reads
	now.RecursionMisses++
	require.Equal(t, want, o.look())
	require.Equal(t, count, reads)
}
