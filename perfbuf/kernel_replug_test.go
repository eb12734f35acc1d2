//go:build linux && cgo

package perfbuf_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// A ring that gets new perf events goes on where it was, for every consumer, and however often.
func TestKernelNewPerfEvents(t *testing.T) {
	for name, make := range readings {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 16 << 10})
			l := newLedger(t)
			n, stop := running(t, make(t, r), l.add)
			total := int64(0)
			for range 3 {
				for _, cpu := range r.Options().CPUs {
					e.Emit(cpu, 20, 40)
					total += 20
				}
				eventually(t, "delivered", func() bool { return n.Load() == total })
				// Some by the new bell
				eventually(t, "armed", func() bool { return r.Stats().Doorbell.Armed == len(r.Rings()) })
				for i := range r.Rings() {
					require.NoError(t, r.Reopen(i))
				}
			}
			stop()
			s := r.Stats()
			require.EqualValues(t, 3*len(s.Rings), s.Hotplug.Reopened)
			require.Zero(t, s.ReplacedEntries)
		})
	}
}

// Losses of all perf events that a ring has had are its own.
func TestKernelNewPerfEventsCountLosses(t *testing.T) {
	kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST")
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{RingBytes: 4096})
	cpu := r.Options().CPUs[0]
	for range 4 {
		e.Emit(cpu, 300, 40)
		require.NoError(t, r.Reopen(0))
	}
	e.Emit(cpu, 300, 40)
	r.Close()
	eventually(t, "its counts are final", func() bool {
		s := r.Stats().Rings[0]
		attempted, failed := e.Counts(cpu)
		return s.Dropped == attempted-failed && s.Lost == failed && attempted == 1500
	})
}

// A map's entry has one perf event. A second reader takes the events away from the first, and its
// Stats say so.
func TestKernelSecondReaderOnAMap(t *testing.T) {
	e := kerneltest.Load(t)
	first := open(t, e, perfbuf.Options{})
	cpus := first.Options().CPUs
	second := open(t, e, perfbuf.Options{CPUs: cpus[:1]})
	require.Zero(t, first.Stats().ReplacedEntries)
	require.Equal(t, 1, second.Stats().ReplacedEntries)
	for _, cpu := range cpus {
		e.Emit(cpu, 3, 40)
	}
	require.Len(t, collect(t, perfbuf.StreamOf(t, second)), 3)
	require.Len(t, collect(t, perfbuf.StreamOf(t, first)), 3*(len(cpus)-1))

	third := open(t, e, perfbuf.Options{})
	require.Equal(t, len(cpus), third.Stats().ReplacedEntries)
	third.Close()
	again := open(t, e, perfbuf.Options{})
	require.Zero(t, again.Stats().ReplacedEntries, "Close leaves none behind")
}
