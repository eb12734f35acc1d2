package perfbuftest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/perfbuf"
	"github.com/ringfold/ringfold/perfbuf/perfbuftest"
	"github.com/stretchr/testify/require"
)

// A program that has taken its event's time and goes on for long holds the watermark back, and with it the markers. They go on
// when it has ended, its event before them.
func TestWatermarkWaitsForPrograms(t *testing.T) {
	for name, o := range map[string]perfbuf.StreamOptions{"exact": {}, "slack": {Order: perfbuf.Slack(time.Millisecond)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := perfbuftest.New(perfbuftest.Options{RealTime: true})
				r := open(t, k, perfbuf.Options{})
				o.FlushEvery = time.Second
				s, err := r.Stream(o)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var markers atomic.Int64
				var sample atomic.Uint64
				done := inBackground(func() error {
					return s.Run(ctx, func(ev perfbuf.Event) error {
						if ev.Kind() == perfbuf.KindFlushed {
							require.Equal(t, s.Watermark(), ev.Time())
							markers.Add(1)
						} else {
							sample.Store(s.Watermark())
						}
						return nil
					})
				})
				time.Sleep(10*time.Second + time.Second/2)
				synctest.Wait()
				require.GreaterOrEqual(t, markers.Load(), int64(9))
				p := k.Begin(1)
				p.Prepare([]byte("slow"))
				at, before := k.Now(), markers.Load()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if name == "exact" {
					require.LessOrEqual(t, markers.Load(), before+1)
					require.Less(t, s.Watermark(), at)
				} else {
					require.Equal(t, before+10, markers.Load(), "it is a guess")
				}
				require.NoError(t, p.Reserve())
				p.Copy()
				p.Publish()
				p.End()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				require.GreaterOrEqual(t, s.Watermark(), k.Now()-uint64(1100*time.Millisecond))
				if name == "exact" {
					require.NotZero(t, sample.Load())
					require.Less(t, sample.Load(), at)
				}
				cancel()
				require.Equal(t, context.Canceled, <-done)
				require.NoError(t, s.Close())
			})
		})
	}
}
