package simulate_test

import (
	"flag"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/simulate"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

var seeds = flag.Int("seeds", 0, "how many seeds to simulate of each set-up; 0 is a few")

// A ring size that overflows, and one that does not within steps.
const (
	small = 4 << 10
	large = 1 << 20
	steps = 20_000
)

// Starts of the rings' counters just below 2^32 and 2^64, so that they pass them.
const (
	near32 = 1<<32 - 4096
	near64 = 1<<64 - 4096
)

const skew = grace.DefaultGuard

// Ring buffers: one shared by all CPUs, one for each of four CPUs, and one that sleepable programs
// output to.
var (
	shared  = simulate.Source{RingBufs: 1}
	shards  = simulate.Source{RingBufs: 4}
	stamped = simulate.Source{RingBufs: 1, Stamped: true, Sleepers: 2}
	all     = []simulate.Source{{}, shared, shards, stamped}
)

// setups returns the set-ups on which the properties are checked.
func setups() map[string]simulate.Setup {
	most := perfbuf.Spill{Above: 1, Until: 1}
	tiny := perfbuf.Spill{Bytes: 8 << 10, Above: 10, Until: 5}
	none := perfbuf.Spill{Bytes: -1}
	with := func(s perfbuf.Spill) perfbuf.StreamOptions { return perfbuf.StreamOptions{Spill: s} }
	return map[string]simulate.Setup{
		"exact, 1 CPU":                   {CPUs: 1, RingBytes: small, Start: near64},
		"exact, 1 CPU, skew":             {CPUs: 1, RingBytes: large, Skew: skew},
		"exact, 2 CPUs":                  {CPUs: 2, RingBytes: large},
		"exact, 2 CPUs, skew":            {CPUs: 2, RingBytes: small, Skew: skew, Start: near32},
		"exact, 4 CPUs":                  {CPUs: 4, RingBytes: small},
		"exact, 4 CPUs, skew":            {CPUs: 4, RingBytes: large, Skew: skew, Start: near64},
		"exact, 4 CPUs, no spill":        {CPUs: 4, RingBytes: small, Skew: skew, Stream: with(none)},
		"exact, 4 CPUs, tiny spill":      {CPUs: 4, RingBytes: small, Skew: skew, Start: near64, Stream: with(tiny)},
		"exact, 4 CPUs, most spilled":    {CPUs: 4, RingBytes: small, Skew: skew, Start: near32, Stream: with(most)},
		"exact, 4 CPUs, no counter":      {CPUs: 4, RingBytes: small, Skew: skew, NoCounter: true},
		"exact, 2 CPUs, no counter":      {CPUs: 2, RingBytes: small, NoCounter: true, Start: near64},
		"exact, 8 CPUs":                  {CPUs: 8, RingBytes: small, Start: near32},
		"exact, 8 CPUs, skew":            {CPUs: 8, RingBytes: large, Skew: skew, Start: near32},
		"exact, 33 CPUs":                 {CPUs: 33, RingBytes: small, Skew: skew},
		"payload, 1 CPU":                 {CPUs: 1, RingBytes: small, Payload: true, Skew: skew},
		"payload, 4 CPUs":                {CPUs: 4, RingBytes: large, Payload: true, Start: near64},
		"payload, 4 CPUs, skew":          {CPUs: 4, RingBytes: small, Payload: true, Skew: skew, Start: near32},
		"payload, 4 CPUs, most spilled":  {CPUs: 4, RingBytes: small, Payload: true, Skew: skew, Stream: with(most)},
		"payload, 4 CPUs, no time":       {CPUs: 4, RingBytes: small, Payload: true, NoTime: true, Skew: skew, NoCounter: true},
		"payload, 8 CPUs, tiny spill":    {CPUs: 8, RingBytes: small, Payload: true, NoTime: true, Stream: with(tiny)},
		"slack 1 ns, 4 CPUs":             {CPUs: 4, RingBytes: large, Slack: 1},
		"slack 5 us, 4 CPUs, skew":       {CPUs: 4, RingBytes: small, Slack: 5 * time.Microsecond, Skew: skew},
		"slack 50 us, 8 CPUs, drop":      {CPUs: 8, RingBytes: small, Slack: 50 * time.Microsecond, Skew: skew, Stream: perfbuf.StreamOptions{DropLate: true}},
		"slack 50 us, 2 CPUs, spill":     {CPUs: 2, RingBytes: small, Slack: 50 * time.Microsecond, Stream: with(most), Start: near64},
		"slack 50 us, payload, 4 CPUs":   {CPUs: 4, RingBytes: small, Slack: 50 * time.Microsecond, Payload: true, Skew: skew},
		"slack 1 ms, 4 CPUs, no counter": {CPUs: 4, RingBytes: small, Slack: time.Millisecond, Skew: skew, NoCounter: true, Start: near32},
		"exact, abandoned":               {CPUs: 4, RingBytes: small, Skew: skew, Abandon: true},
		"exact, abandoned, no counter":   {CPUs: 2, RingBytes: small, Skew: skew, Abandon: true, NoCounter: true},
		"payload, abandoned, spilled":    {CPUs: 4, RingBytes: small, Payload: true, Skew: skew, Abandon: true, Stream: with(most)},
		"two arrays":                     {CPUs: 4, RingBytes: small, Skew: skew, Sources: []simulate.Source{{}}},
		"two arrays, changes":            {CPUs: 4, RingBytes: small, Skew: skew, Sources: []simulate.Source{{}}, Changes: true},
		"ring buffer":                    {CPUs: 4, RingBytes: large, Skew: skew, Start: near32, Sources: []simulate.Source{shared}, Only: true},
		"ring buffer, full":              {CPUs: 4, RingBytes: small, Skew: skew, Start: near64, Sources: []simulate.Source{shared}, Only: true},
		"ring buffer, mostly idle":       {CPUs: 4, RingBytes: small, Idle: 3, Skew: skew, Sources: []simulate.Source{shared}, Only: true},
		"ring buffer, changes":           {CPUs: 4, RingBytes: small, Skew: skew, Sources: []simulate.Source{shared}, Only: true, Changes: true},
		"shards":                         {CPUs: 4, RingBytes: small, Skew: skew, Start: near32, Sources: []simulate.Source{shards}, Only: true},
		"stamped":                        {CPUs: 4, RingBytes: large, Skew: skew, Start: near64, Sources: []simulate.Source{stamped}, Only: true},
		"stamped, full":                  {CPUs: 4, RingBytes: small, Skew: skew, Start: near32, Sources: []simulate.Source{stamped}, Only: true},
		"stamped, changes":               {CPUs: 4, RingBytes: small, Skew: skew, Sources: []simulate.Source{stamped, stamped}, Only: true, Changes: true},
		"mixed":                          {CPUs: 4, RingBytes: small, Skew: skew, Start: near32, Sources: all},
		"mixed, large":                   {CPUs: 4, RingBytes: large, Skew: skew, Start: near64, Sources: all},
		"mixed, changes":                 {CPUs: 4, RingBytes: small, Skew: skew, Start: near32, Sources: all, Changes: true},
		"mixed, most spilled":            {CPUs: 4, RingBytes: small, Skew: skew, Sources: all, Stream: with(most)},
		"ring buffer, abandoned":         {CPUs: 4, RingBytes: large, Skew: skew, Sources: []simulate.Source{shared}, Only: true, Abandon: true},
		"mixed, abandoned":               {CPUs: 4, RingBytes: small, Skew: skew, Sources: all, Abandon: true},
		"slack 50 us, mixed":             {CPUs: 4, RingBytes: small, Slack: 50 * time.Microsecond, Skew: skew, Sources: all},
		"slack 50 us, mixed, changes":    {CPUs: 4, RingBytes: small, Slack: 50 * time.Microsecond, Sources: all, Changes: true},
		"slack 50 us, mixed, drop":       {CPUs: 4, RingBytes: small, Slack: 50 * time.Microsecond, Sources: all, Stream: perfbuf.StreamOptions{DropLate: true}},
		"slack 50 us, abandoned":         {CPUs: 4, RingBytes: small, Slack: 50 * time.Microsecond, Skew: skew, Abandon: true},
	}
}

// runs calls f for each seed: for few of them by default, and for fewer under the race detector.
func runs(few int, f func(seed uint64)) {
	switch {
	case *seeds > 0:
		few = *seeds
	case race:
		few = (few + 7) / 8
	}
	for seed := range few {
		f(uint64(seed))
	}
}

// Seeds that have shown faults, in the stream or in what the simulation demands of it.
func TestSeeds(t *testing.T) {
	for seed, name := range map[uint64]string{
		662: "slack 50 us, mixed", // a marker claimed more than the watermark, past an event that had just come
		287: "mixed, changes",     // a source that was leaving had to wake the stream
		877: "mixed, changes",     // a marker had to come before the older events of a source just added
	} {
		s := setups()[name]
		s.Steps = steps
		_, err := simulate.Run(s, seed)
		require.NoError(t, err, name)
	}
}

// Every promise of a stream holds in all set-ups. Run checks them, see its errors.
func TestStream(t *testing.T) {
	for name, s := range setups() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.Steps = steps
			if race {
				s.Steps /= 4
			}
			var sum simulate.Result
			runs(8, func(seed uint64) {
				res, err := simulate.Run(s, seed)
				require.NoError(t, err)
				sum.Add(res)
			})
			t.Log(sum) // the result of make simulate
			require.NotZero(t, sum.Events)
			if s.Slack == 0 && !s.Changes { // records older than an Add may be late
				require.Zero(t, sum.Late)
			}
		})
	}
}
