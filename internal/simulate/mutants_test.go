package simulate_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/simulate"
	"github.com/stretchr/testify/require"
)

// Each way of being wrong is noticed, soon, and for the right reason.
func TestMutantsAreCaught(t *testing.T) {
	late := []error{simulate.ErrLate, simulate.ErrWatermark} // whichever is seen first
	for name, c := range map[string]struct {
		setup simulate.Setup
		as    []error
	}{
		"barriers that wait for nothing":    {simulate.Setup{Mutant: simulate.Lying}, late},
		"the clock is read after the wait":  {simulate.Setup{Mutant: simulate.LateClock}, late},
		"heads are loaded before the wait":  {simulate.Setup{Mutant: simulate.EarlyHeads}, late},
		"clocks differ by more than guard":  {simulate.Setup{Skew: 10 * skew}, late},
		"tails move over what is not read":  {simulate.Setup{Mutant: simulate.EarlyTail}, []error{simulate.ErrSample}},
		"lying, with the programs' time":    {simulate.Setup{Mutant: simulate.Lying, Payload: true}, late},
		"late clock, the programs' time":    {simulate.Setup{Mutant: simulate.LateClock, Payload: true}, late},
		"early heads, the programs' time":   {simulate.Setup{Mutant: simulate.EarlyHeads, Payload: true}, late},
		"no guard with the programs' time":  {simulate.Setup{Skew: 10 * skew, Payload: true}, late},
		"claims what is not delivered":      {simulate.Setup{Mutant: simulate.Boasting}, []error{simulate.ErrWatermark}},
		"early tails in rings that overrun": {simulate.Setup{Mutant: simulate.EarlyTail, RingBytes: small}, []error{simulate.ErrSample}},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.setup
			s.CPUs, s.Steps = 4, steps
			if s.RingBytes == 0 {
				s.RingBytes = large
			}
			const few = 8
			for seed := range uint64(few) {
				_, err := simulate.Run(s, seed)
				if err == nil {
					continue
				}
				t.Log(err)
				require.True(t, slices.ContainsFunc(c.as, func(as error) bool { return errors.Is(err, as) }), "%v", c.as)
				return
			}
			require.Failf(t, "not noticed", "in %d seeds", few)
		})
	}
}
