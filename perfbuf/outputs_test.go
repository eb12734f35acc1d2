package perfbuf

import (
	"errors"
	"testing"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

// What the kernel's side has counted is what Stats have.
func TestOutputs(t *testing.T) {
	k := newFake(t, 1, Options{})
	require.Equal(t, OutputStats{}, k.Stats().Outputs)
	failed := errors.New("not now")
	k.hooks.outputs = func() kernel.Outputs {
		return kernel.Outputs{RecursionMisses: 3, Err: failed, CPUs: []kernel.CPUOutputs{
			{CPU: 0, Attempted: 44, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7},
			{CPU: firstCPU, Attempted: 1, Written: 1},
		}}
	}
	want := OutputStats{RecursionMisses: 3, Err: failed, CPUs: []CPUOutputs{
		{CPU: 0, Attempted: 44, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7},
		{CPU: firstCPU, Attempted: 1, Written: 1},
	}}
	require.Equal(t, want, k.Stats().Outputs)
	require.Equal(t, CPUOutputs{CPU: -1, Attempted: 45, Written: 2, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, TooLarge: 8, Other: 7}, want.Total())
}

// Where the kernel does not say how much was lost, programs that count do; where it does, they are
// not asked.
func TestLostByOutputs(t *testing.T) {
	for name, c := range map[string]struct {
		kernel bool
		cpu    int
		full   uint64
		want   uint64
	}{
		"all were reported":              {false, firstCPU, 5, 5},
		"some were not":                  {false, firstCPU, 8, 8},
		"not all programs count":         {false, firstCPU, 2, 5},
		"another CPU":                    {false, firstCPU + 1, 8, 5},
		"the kernel knows":               {true, firstCPU, 9, 7},
		"the kernel counts, nobody else": {true, firstCPU, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			k.counts = c.kernel
			k.overflow(0, 1, 5)
			ids(t, k.unordered())
			k.output(0, 1000) // reports them
			k.overflow(0, 2000, 2)
			ids(t, k.unordered())
			require.EqualValues(t, 5, k.Stats().Total().Lost)
			k.hooks.outputs = func() kernel.Outputs { return kernel.Outputs{CPUs: []kernel.CPUOutputs{{CPU: c.cpu, Full: c.full}}} }
			require.NoError(t, k.Close())
			require.Equal(t, c.want, k.Stats().Total().Lost)
		})
	}
}
