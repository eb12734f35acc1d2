//go:build linux && cgo

package perfbuf_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// All CPUs output as fast as they can, of random sizes, into rings large and small.
// Whatever the reader cannot keep up with, not one output is unaccounted for.
func TestKernelStress(t *testing.T) {
	const runFor = 400 * time.Millisecond
	for name, c := range map[string]struct {
		opts  perfbuf.Options
		pause time.Duration // of the emitters
	}{
		"small":     {perfbuf.Options{RingBytes: 8 << 10}, 0},
		"large":     {perfbuf.Options{RingBytes: 1 << 20}, 0},
		"watermark": {perfbuf.Options{RingBytes: 64 << 10, Wakeup: perfbuf.Wakeup{Bytes: 16 << 10}}, 0},
		"paced":     {perfbuf.Options{RingBytes: 1 << 20}, 200 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			eachSource(t, c.opts, func(t *testing.T, e *kerneltest.Emitter, r *perfbuf.Reader, src *perfbuf.Stream) {
				stop := load(t, e, r.Options().CPUs, 3000, c.pause)
				l := newLedger(t)
				late, last := uint64(0), uint64(0)
				add := func(ev perfbuf.Event) error {
					if src.Options().Order != perfbuf.Unordered() {
						if ev.Late() {
							late++
						} else if ev.Time() < last {
							t.Errorf("%v of CPU %d is %d ns before the event before, and not marked", ev.Kind(), ev.CPU(), last-ev.Time())
						}
						last = max(last, ev.Time())
					}
					return l.add(ev)
				}
				over := errors.New("over")
				ctx, cancel := context.WithTimeoutCause(t.Context(), runFor, over)
				defer cancel()
				require.Equal(t, over, src.Run(ctx, add))
				stop()
				require.NoError(t, src.ForEach(add))
				for _, ring := range r.Rings() {
					e.Emit(ring.CPU(), 1, 24) // reports the losses
				}
				require.NoError(t, src.ForEach(add))
				l.balance(e, r)
				stats := r.Stats()
				require.Equal(t, late, stats.Late)
				require.Zero(t, stats.Inversions)
				require.Zero(t, stats.Total().Used)
				t.Logf("%d delivered, %d lost, %d late, %d passes, %d wakes", l.delivered(), l.lost(), late, stats.Passes, stats.Wakes)
			})
		})
	}
}
