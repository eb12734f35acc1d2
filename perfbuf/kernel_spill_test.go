//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// Events that are held for longer than the rings can hold them are copied out: every byte arrives,
// in order; events beyond the budget are lost and reported.
func TestKernelSpill(t *testing.T) {
	for name, c := range map[string]struct {
		order perfbuf.StreamOptions
		all   bool
	}{
		"exact":       {perfbuf.StreamOptions{BarrierInterval: 200 * time.Millisecond, Spill: perfbuf.Spill{Bytes: 64 << 20}}, true},
		"slack":       {perfbuf.StreamOptions{Order: perfbuf.Slack(200 * time.Millisecond), Spill: perfbuf.Spill{Bytes: 64 << 20}}, true},
		"over budget": {perfbuf.StreamOptions{BarrierInterval: 200 * time.Millisecond, Spill: perfbuf.Spill{Bytes: 512 << 10}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 256 << 10})
			s, err := r.Stream(c.order)
			require.NoError(t, err)
			l := &orderly{ledger: newLedger(t)}
			// However slow the machine: until the budget is used, or enough of it, and not much
			// more.
			var load sync.WaitGroup
			for _, cpu := range r.Options().CPUs {
				load.Go(func() {
					for st := r.Stats(); st.SpilledBytes <= 512<<10 || !c.all && st.SpillRefused == 0; st = r.Stats() {
						e.Emit(cpu, 100, 24+rand.IntN(476))
						time.Sleep(time.Millisecond)
					}
				})
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			background(t, func() { load.Wait(); cancel(errOver) })
			require.ErrorIs(t, s.Run(ctx, l.add), errOver)
			finish(t, e, r, s, l.add)
			l.balance(e, r)
			st := r.Stats()
			t.Logf("%d delivered, %d lost, %d bytes spilled, %d times refused", l.delivered(), l.lost(), st.SpilledBytes, st.SpillRefused)
			require.Greater(t, st.SpilledBytes, uint64(256<<10))
			require.Equal(t, c.all, st.SpillRefused == 0)
			require.Zero(t, st.SpillUsed)
			require.Zero(t, st.Late)
		})
	}
}
