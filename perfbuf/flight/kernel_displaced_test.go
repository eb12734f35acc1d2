//go:build linux && cgo

package flight_test

import (
	"testing"

	"github.com/ringfold/ringfold/internal/bpf"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

// recorded opens a recorder that can check whether it still owns its entries.
func recorded(t *testing.T, e *kerneltest.Emitter) *flight.Recorder {
	t.Helper()
	if !kerneltest.AtLeast(t, 5, 10) {
		t.Skip("entries cannot be compared before Linux 5.10")
	}
	r := open(t, e, flight.Options{})
	d := r.Displaced()
	require.NoError(t, d.Err)
	require.Zero(t, d.Entries)
	return r
}

// take opens another reader, which takes some CPUs' entries.
func take(t *testing.T, e *kerneltest.Emitter, cpus []int) *perfbuf.Reader {
	t.Helper()
	r, err := perfbuf.Open(e.MapFD(), perfbuf.Options{CPUs: cpus})
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// After entries are emptied or taken by another reader, snapshots are complete only up to then.
// Snapshots and Stats report this, also after Close. Events of other CPUs still arrive.
func TestKernelDisplaced(t *testing.T) {
	cpus := kerneltest.OnlineCPUs(t)
	for name, c := range map[string]struct {
		displace func(t *testing.T, e *kerneltest.Emitter)
		entries  int
	}{
		"another reader":            {func(t *testing.T, e *kerneltest.Emitter) { take(t, e, cpus) }, len(cpus)},
		"another recorder":          {func(t *testing.T, e *kerneltest.Emitter) { open(t, e, flight.Options{}) }, len(cpus)},
		"a reader that is closed":   {func(t *testing.T, e *kerneltest.Emitter) { require.NoError(t, take(t, e, cpus).Close()) }, len(cpus)},
		"another reader of one CPU": {func(t *testing.T, e *kerneltest.Emitter) { take(t, e, cpus[:1]) }, 1},
		"an entry deleted": {func(t *testing.T, e *kerneltest.Emitter) {
			require.NoError(t, bpf.MapDelete(e.MapFD(), uint32(cpus[0])))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := recorded(t, e)
			e.EmitOn(cpus, 3, 40)
			looked := perfbuf.Now()
			whole := snapshot(t, r)
			require.Greater(t, whole.Until(), looked)
			require.Equal(t, 3*len(cpus), whole.Len())
			c.displace(t, e)
			taken := perfbuf.Now()
			e.EmitOn(cpus, 2, 40)
			var until uint64
			for n := range 2 {
				s := snapshot(t, r)
				require.Less(t, s.Until(), taken)
				require.GreaterOrEqual(t, s.Until(), whole.Until(), "the look of the snapshot before")
				require.Equal(t, whole.CompleteSince(), s.CompleteSince())
				if until != 0 {
					require.Equal(t, until, s.Until(), "snapshot %d", n)
				}
				until = s.Until()
				require.Equal(t, 3*len(cpus)+2*(len(cpus)-c.entries), s.Len())
				for ev := range s.Events() {
					p, err := kerneltest.Check(ev.Bytes())
					require.NoError(t, err)
					require.Equal(t, p.Seq >= 3, ev.Time() > until, "what comes later is not said to be complete")
				}
			}
			require.Equal(t, c.entries, r.Stats().Displaced.Entries)
			require.NoError(t, r.Close())
			d := r.Displaced()
			require.Equal(t, c.entries, d.Entries)
			require.GreaterOrEqual(t, d.OwnedUntil, until)
			require.Less(t, d.OwnedUntil, taken)
		})
	}
}
