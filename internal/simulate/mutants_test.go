package simulate_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ringfold/ringfold/internal/simulate"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// The simulation catches each mutant, soon, and for the right reason.
func TestMutantsAreCaught(t *testing.T) {
	late := []error{simulate.ErrLate, simulate.ErrWatermark} // whichever is seen first
	held := []error{simulate.ErrDelayed, simulate.ErrRest}
	// of sets up a single source.
	of := func(m simulate.Mutant, s simulate.Source) simulate.Setup {
		return simulate.Setup{Mutant: m, Sources: []simulate.Source{s}, Only: true}
	}
	claimed := simulate.Source{RingBufs: 1, Claimed: true} // programs stamp before they reserve
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

		"ring buffer: barriers that wait for nothing":   {of(simulate.Lying, shared), late},
		"ring buffer: the clock is read after the wait": {of(simulate.LateClock, shared), late},
		"ring buffer: heads are loaded before the wait": {of(simulate.EarlyHeads, shared), late},
		"shards: heads are loaded before the wait":      {of(simulate.EarlyHeads, shards), late},
		"ring buffer: no barrier at all":                {of(simulate.None, claimed), append(late, simulate.ErrDelayed)},
		"ring buffer: clocks differ by more than guard": {simulate.Setup{Skew: 10 * skew, Sources: []simulate.Source{shared}, Only: true}, late},
		"ring buffer: a tail moves over what is busy":   {of(simulate.EarlyTail, shared), []error{simulate.ErrSample}},
		"ring buffer: what is busy is passed over":      {of(simulate.SkippedBusy, shared), held},
		"ring buffer: what is discarded is delivered":   {of(simulate.DiscardAsSample, shared), []error{simulate.ErrSample}},
		"ring buffer: heads of 32 bits":                 {simulate.Setup{Mutant: simulate.Heads32, Start: near32, Sources: []simulate.Source{shared}, Only: true}, held},
		"array: heads of 32 bits":                       {simulate.Setup{Mutant: simulate.Heads32, Start: near32}, held},
		"stamped: what is busy holds up nothing":        {of(simulate.HiddenBusy, stamped), late},
		"stamped: clocks differ by more than guard":     {simulate.Setup{Skew: 10 * skew, Sources: []simulate.Source{stamped}, Only: true}, late},
		"stamped: what is busy is passed over":          {of(simulate.SkippedBusy, stamped), held},
		"mixed: barriers that wait for nothing":         {simulate.Setup{Mutant: simulate.Lying, Sources: all}, late},
		"mixed: a source is left out of scans":          {simulate.Setup{Mutant: simulate.LeftOut, Sources: all}, append(held, late...)},
		"mixed: what is busy holds up nothing":          {simulate.Setup{Mutant: simulate.HiddenBusy, Sources: all}, append(held, late...)},
		"ring buffer: a wait stores no tails":           {simulate.Setup{Mutant: simulate.LateTail, Sources: []simulate.Source{shared}, Only: true, Idle: 3}, held},
		"stamped: a wait stores no tails":               {simulate.Setup{Mutant: simulate.LateTail, Sources: []simulate.Source{{RingBufs: 1, Stamped: true}}, Only: true, Idle: 3}, held},
		"what comes below the watermark is not marked":  {simulate.Setup{Mutant: simulate.Unmarked, Sources: []simulate.Source{{}}, Changes: true}, []error{simulate.ErrOrder}},
		"rings that are read are unmapped":              {simulate.Setup{Mutant: simulate.EarlyFree, Sources: []simulate.Source{{}}, Changes: true}, []error{simulate.ErrSample}},
		"changes use the stream":                        {simulate.Setup{Mutant: simulate.Meddling, Sources: []simulate.Source{{}}}, []error{perfbuf.ErrBusy}},
		"a flush is lost as sources change":             {simulate.Setup{Mutant: simulate.LostFlush, Sources: []simulate.Source{{}}, Changes: true}, []error{simulate.ErrWatermark}},
		"a source is not waited for":                    {simulate.Setup{Mutant: simulate.Forgotten, Sources: []simulate.Source{{}}, Changes: true}, []error{simulate.ErrRest}},
		"Drain does not wait for programs":              {simulate.Setup{Mutant: simulate.Hasty}, late},
		"ring buffer: Remove does not give back":        {simulate.Setup{Mutant: simulate.KeptTail, Sources: []simulate.Source{{}, shared}, Changes: true}, []error{simulate.ErrSample, simulate.ErrCounts, simulate.ErrMissing}},
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
