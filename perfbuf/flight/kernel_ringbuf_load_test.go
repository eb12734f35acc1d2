//go:build linux && cgo

package flight_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/internal/workload"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

// of is the sequence of a CPU's outputs on one level of nesting.
type of struct{ cpu, level int }

// whole requires that a snapshot's payloads are intact, in order and without a gap.
func whole(t testing.TB, s *flight.Snapshot) map[of]span {
	t.Helper()
	all, missing, _ := read(t, s)
	require.Zero(t, missing)
	return all
}

// numbered is an event.
type numbered struct {
	of
	seq, time uint64
}

// read is whole, but counts the missing ones, and returns all events.
func read(t testing.TB, s *flight.Snapshot) (all map[of]span, missing uint64, events []numbered) {
	t.Helper()
	for _, ring := range s.Rings() {
		require.NoError(t, ring.Err)
	}
	all, last := map[of]span{}, uint64(0)
	for ev := range s.Events() {
		p, err := workload.Check(ev.Bytes())
		if err != nil || ev.Time() != p.Time || ev.CPU() != p.CPU || p.Time < last || p.Time < s.CompleteSince() || p.Time > s.Until() {
			t.Fatalf("%v, %+v: %v, after %d, of %d to %d", ev, p, err, last, s.CompleteSince(), s.Until())
		}
		last = p.Time
		k := of{p.CPU, p.Level}
		got, ok := all[k]
		if !ok {
			got.first, got.next = p.Seq, p.Seq
		}
		if p.Seq < got.next {
			t.Fatalf("%v: %+v comes after %+v", ev, p, got)
		}
		missing += p.Seq - got.next
		all[k] = span{got.first, p.Seq + 1}
		events = append(events, numbered{k, p.Seq, p.Time})
	}
	return all, missing, events
}

// refused is how many outputs have failed on all CPUs.
func refused(e *kerneltest.RingEmitter, cpus []int) (n uint64) {
	for _, cpu := range cpus {
		_, failed := e.Counts(cpu)
		n += failed
	}
	return n
}

// While a snapshot is taken, programs output at full speed on all CPUs, in different sizes, and
// timers interrupt them and output, too. What they overwrite is from nothing to a few laps. No
// snapshot has a damaged event. None lacks one that ended before it, or that an earlier one had.
// Numbers are missing only where outputs were refused.
func TestKernelOverwrittenUnderLoad(t *testing.T) {
	for name, set := range map[string]struct{ bytes, most, rounds int }{ // most: calls on a CPU in a round
		"large": {256 << 10, 24, 50}, "small": {64 << 10, 8, 550}, "laps": {16 << 10, 8, 400},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.LoadRings(t, kerneltest.RingOptions{Overwrite: true, Interrupt: true, Bytes: set.bytes})
			r := openRings(t, e.MapFD(), ringOptions())
			cpus := kerneltest.OnlineCPUs(t)
			require.NoError(t, e.Aim(workload.Shared, false))
			stop, err := e.Programs.Tick(cpus, 300*time.Microsecond)
			require.NoError(t, err)
			defer stop()
			var before []numbered
			var events, interrupts, nothing, overlaps, full int
			for round := range set.rounds {
				var load sync.WaitGroup
				for _, cpu := range cpus {
					calls := rand.IntN(set.most)
					load.Go(func() {
						for n := range calls {
							if err := e.TryEmit(cpu, 8, kerneltest.MinSize+(round+n*n)%400); err != nil {
								t.Error(err)
							}
						}
					})
				}
				ended := map[int]uint64{}
				for _, cpu := range cpus {
					ended[cpu] = e.Written(cpu)
				}
				s := snapshot(t, r)
				load.Wait()
				all, missing, now := read(t, s)
				if missing > 0 {
					require.LessOrEqual(t, missing, refused(e, cpus))
				}
				if len(now) == 0 {
					nothing++
				} else if s.CompleteSince() > 0 {
					full++
				}
				for _, cpu := range cpus {
					if got, ok := all[of{cpu, 0}]; ok && got.next < ended[cpu] {
						t.Fatalf("CPU %d had output %d, and %+v came", cpu, ended[cpu], got)
					}
				}
				for _, ev := range before {
					if ev.time < s.CompleteSince() {
						continue
					}
					overlaps++
					if got := all[ev.of]; ev.seq < got.first || ev.seq >= got.next {
						t.Fatalf("%+v was there, and now %+v, of %d to %d", ev, got, s.CompleteSince(), s.Until())
					}
				}
				for _, ev := range now {
					interrupts += min(ev.level, 1)
				}
				events, before = events+len(now), now
				s.Release()
			}
			t.Logf("%d snapshots: %d events, %d of them also in the one before, %d amid others; %d wrapped, %d without events; %d outputs refused",
				set.rounds, events, overlaps, interrupts, full, nothing, refused(e, cpus))
			require.Positive(t, events)
		})
	}
}
