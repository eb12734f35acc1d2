package perfbuf

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeOutputs are counts that a test sets.
type fakeOutputs struct {
	OutputStats
	err         error
	reads, free int
}

func (f *fakeOutputs) read() (OutputStats, error) {
	f.reads++
	s := f.OutputStats
	s.CPUs = slices.Clone(s.CPUs)
	return s, f.err
}

func (f *fakeOutputs) open(t *testing.T, r *Reader) {
	t.Helper()
	var err error
	r.outputs, err = newOutputs(f.read, func() { f.free++ })
	require.NoError(t, err)
}

// Counts are those since Open. A look that fails says so, and leaves the counts as they were; Close takes the last look.
func TestOutputs(t *testing.T) {
	k := newFake(t, 1, Options{})
	require.Equal(t, OutputStats{}, k.Stats().Outputs)
	f := &fakeOutputs{OutputStats: OutputStats{RecursionMisses: 100, CPUs: []CPUOutputs{
		{CPU: 0, Attempted: 36, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, Other: 7},
		{CPU: firstCPU, Attempted: 1000},
	}}}
	f.open(t, k.Reader)
	require.Equal(t, OutputStats{CPUs: []CPUOutputs{{CPU: 0}, {CPU: firstCPU}}}, k.Stats().Outputs)
	f.RecursionMisses, f.CPUs = 103, []CPUOutputs{
		{CPU: 0, Attempted: 2 * 36, Written: 2, Full: 4, NoRing: 6, Nested: 8, Offline: 10, NoEntry: 12, Other: 14},
		{CPU: firstCPU, Attempted: 1001, Written: 1},
	}
	want := OutputStats{RecursionMisses: 3, CPUs: []CPUOutputs{
		{CPU: 0, Attempted: 36, Written: 1, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, Other: 7},
		{CPU: firstCPU, Attempted: 1, Written: 1},
	}}
	require.Equal(t, want, k.Stats().Outputs)
	require.Equal(t, CPUOutputs{CPU: -1, Attempted: 37, Written: 2, Full: 2, NoRing: 3, Nested: 4, Offline: 5, NoEntry: 6, Other: 7}, want.Total())

	f.err = errors.New("not now")
	f.RecursionMisses++
	want.Err = f.err
	require.Equal(t, want, k.Stats().Outputs)
	f.err, want.Err = nil, nil
	want.RecursionMisses++
	require.Equal(t, want, k.Stats().Outputs)

	f.CPUs[1].Other++
	f.CPUs[1].Attempted++
	want.CPUs[1].Other++
	want.CPUs[1].Attempted++
	require.NoError(t, k.Close())
	require.Equal(t, 1, f.free)
	reads := f.reads
	require.Equal(t, want, k.Stats().Outputs)
	k.Stats().Outputs.CPUs[0].CPU = 99
	require.Equal(t, want, k.Stats().Outputs)
	require.Equal(t, reads, f.reads)
	require.Equal(t, 1, f.free)
}

// Where the kernel does not say how much was lost, programs that count do; where it does, they are not asked.
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
			f := &fakeOutputs{OutputStats: OutputStats{CPUs: []CPUOutputs{{CPU: c.cpu, Full: 1000}}}}
			f.open(t, k.Reader)
			k.overflow(0, 1, 5)
			ids(t, k.Reader)
			k.output(0, 1000) // reports them
			k.overflow(0, 2000, 2)
			ids(t, k.Reader)
			require.EqualValues(t, 5, k.Stats().Total().Lost)
			f.CPUs[0].Full += c.full
			require.NoError(t, k.Close())
			require.Equal(t, c.want, k.Stats().Total().Lost)
		})
	}
}
