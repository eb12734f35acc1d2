//go:build linux && cgo

package perfbuf_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// All CPUs at once, then none: in exact mode no event comes up to the watermark, which goes on in
// either case, and stands behind the last event at the end.
func TestKernelWatermark(t *testing.T) {
	for name, c := range map[string]struct {
		opts perfbuf.Options
		mode perfbuf.Order
	}{
		"exact":          {mode: perfbuf.Order{}},
		"exact, overrun": {opts: perfbuf.Options{RingBytes: 8 << 10}, mode: perfbuf.Order{}},
		"slack":          {mode: perfbuf.Slack(2 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			const every = 5 * time.Millisecond
			e := kerneltest.Load(t)
			r := open(t, e, c.opts)
			s, err := r.Stream(perfbuf.StreamOptions{Order: c.mode, FlushEvery: every})
			require.NoError(t, err)
			l := newLedger(t)
			var markers atomic.Int64
			var marked uint64
			f := func(ev perfbuf.Event) error {
				w := s.Watermark()
				if ev.Kind() == perfbuf.KindFlushed {
					if ev.Time() < w || markers.Load() > 0 && ev.Time() < marked+uint64(every) {
						t.Errorf("a marker of %d after one of %d, where the watermark is %d", ev.Time(), marked, w)
					}
					marked = ev.Time()
					markers.Add(1)
					return nil
				}
				if ev.Kind() == perfbuf.KindSample && ev.Time() <= w && c.mode == (perfbuf.Order{}) {
					t.Errorf("CPU %d: an event is %d ns before the watermark", ev.CPU(), w-ev.Time())
				}
				return l.add(ev)
			}
			var over atomic.Bool
			watched := make(chan bool)
			background(t, func() { // from another goroutine
				defer close(watched)
				for last := uint64(0); !over.Load(); time.Sleep(100 * time.Microsecond) {
					w := s.Watermark()
					if w < last || w > perfbuf.Now() {
						t.Errorf("the watermark is %d after %d, at %d", w, last, perfbuf.Now())
					}
					last = w
				}
			})
			_, end := running(t, s, f)
			stop := load(t, e, r.Options().CPUs, 300, 50*time.Microsecond)
			eventually(t, "markers between events", func() bool { return markers.Load() >= 20 })
			stop()
			at, n := perfbuf.Now(), markers.Load()
			eventually(t, "markers without events", func() bool { return markers.Load() >= n+5 })
			require.Greater(t, s.Watermark(), at)
			end()
			at = perfbuf.Now()
			finish(t, e, r, s, f)
			// The guard is 10 us, or more with nest levels
			require.GreaterOrEqual(t, s.Watermark(), at-20_000)
			if c.mode == (perfbuf.Order{}) {
				l.balance(e, r)
			}
			over.Store(true)
			<-watched
			before := s.Watermark()
			require.NoError(t, r.Close())
			require.Equal(t, before, s.Watermark())
		})
	}
}

// On an idle system, exact mode makes one barrier per interval, and the process sleeps in between.
func TestKernelFlushEveryWhenIdle(t *testing.T) {
	e := kerneltest.Load(t)
	r := open(t, e, perfbuf.Options{})
	s, err := r.Stream(perfbuf.StreamOptions{FlushEvery: 20 * time.Millisecond})
	require.NoError(t, err)
	n := uint64(0)
	require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
		require.Equal(t, perfbuf.KindFlushed, ev.Kind())
		if n++; n == 10 {
			return perfbuf.ErrStop
		}
		return nil
	}))
	st := r.Stats()
	require.LessOrEqual(t, st.Barrier.Count, n+1, "one may have been asked for at the end")
	require.Equal(t, n, st.Passes)
	require.Zero(t, st.Wakes)
}
