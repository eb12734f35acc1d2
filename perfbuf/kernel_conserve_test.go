//go:build linux && cgo

package perfbuf_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

// kernelCounts reports whether the kernel has PERF_FORMAT_LOST: Linux 6.0.
func kernelCounts(t testing.TB) bool {
	t.Helper()
	return kerneltest.AtLeast(t, 6, 0)
}

// consumers read by all means until f returns an error or the reader is closed.
var consumers = map[string]func(t *testing.T, r *perfbuf.Reader, f func() error) error{
	"fold": func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		for {
			if err := perfbuf.StreamOf(t, r).Wait(t.Context()); err != nil {
				return err
			}
			if _, err := perfbuf.Fold(perfbuf.StreamOf(t, r), 0, func(n int, _ perfbuf.Event) (int, error) { return n, f() }); err != nil {
				return err
			}
		}
	},
	"records": func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		for _, err := range perfbuf.StreamOf(t, r).Records(t.Context()) {
			if err == nil {
				err = f()
			}
			if err != nil {
				return err
			}
		}
		return nil
	},
	"slack":     orderedBy(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Millisecond)}),
	"drop late": orderedBy(perfbuf.StreamOptions{Order: perfbuf.Slack(0), DropLate: true}),
	"exact":     orderedBy(perfbuf.StreamOptions{}),
	"exact, one stream after another": func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		for {
			s, err := r.Stream(perfbuf.StreamOptions{})
			if err != nil {
				return err
			}
			n := 0
			err = s.Run(t.Context(), func(perfbuf.Event) error {
				if n++; n == 500 {
					s.Close()
				}
				return f()
			})
			if err != os.ErrClosed {
				return err
			} // of the stream, or of the reader: the next is refused then
		}
	},
}

func orderedBy(o perfbuf.StreamOptions) func(*testing.T, *perfbuf.Reader, func() error) error {
	return func(t *testing.T, r *perfbuf.Reader, f func() error) error {
		s, err := r.Stream(o)
		if err != nil {
			return err
		}
		return s.Run(t.Context(), func(perfbuf.Event) error { return f() })
	}
}

// Close under full load, for each kind of consumer: every event that the rings took was delivered
// or is counted as dropped, up to the last one under way.
func TestKernelConservation(t *testing.T) {
	for name, consume := range consumers {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			for round := range 4 {
				r := open(t, e, perfbuf.Options{RingBytes: 16 << 10 << (round % 3)})
				type counts struct{ took, refused uint64 }
				count := func(cpu int) counts {
					attempted, failed := e.Counts(cpu)
					return counts{attempted - failed, failed}
				}
				before := map[int]counts{}
				for _, cpu := range r.Options().CPUs {
					before[cpu] = count(cpu)
				}
				stop := load(t, e, r.Options().CPUs, 300, 0)
				n, closer := 0, make(chan struct{})
				signal := sync.OnceFunc(func() { close(closer) })
				closed := background(t, func() { <-closer; r.Close() })
				err := consume(t, r, func() error {
					if n++; n > 1000 {
						if round%2 == 0 {
							r.Close()
						}
						signal()
					}
					return nil
				})
				require.Equal(t, os.ErrClosed, err)
				<-closed
				<-r.Done()
				stop()
				for _, s := range r.Stats().Rings {
					now, old := count(s.CPU), before[s.CPU]
					require.Equal(t, now.took-old.took, s.Samples+s.Dropped, "CPU %d", s.CPU)
					require.LessOrEqual(t, s.Lost, now.refused-old.refused, "without ENOENT after Close")
				}
			}
		})
	}
}

// Without a refusal for other reasons, as long as the reader is open, the balance is exact, with
// Lost, even if events are left in the rings.
func TestKernelBalance(t *testing.T) {
	for name, consume := range consumers {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 8 << 10})
			n := 0
			stop := load(t, e, r.Options().CPUs, 300, 0)
			require.ErrorIs(t, consume(t, r, func() error {
				if n++; n > 4000 {
					return errOver
				}
				return nil
			}), errOver)
			stop()
			kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST, for losses that nothing has reported")
			shut(t, r)
			for _, s := range r.Stats().Rings {
				attempted, failed := e.Counts(s.CPU)
				require.Equal(t, attempted, s.Samples+s.Dropped+s.Lost, "CPU %d", s.CPU)
				require.Equal(t, failed, s.Lost, "CPU %d", s.CPU)
			}
		})
	}
}

// Losses that nothing reports: Drain delivers them, and so does a stream that waits; the counts
// have them after Close, whether they were delivered or not.
func TestKernelUnreportedLosses(t *testing.T) {
	kerneltest.RequireLinux(t, 6, 0, "PERF_FORMAT_LOST")
	for name, end := range map[string]func(*testing.T, *perfbuf.Reader, *ledger){
		"drain": func(t *testing.T, r *perfbuf.Reader, l *ledger) {
			s, err := r.Stream(perfbuf.StreamOptions{})
			require.NoError(t, err)
			require.NoError(t, s.Drain(t.Context(), l.add))
		},
		"flush": func(t *testing.T, r *perfbuf.Reader, l *ledger) {
			s, err := r.Stream(perfbuf.StreamOptions{Order: perfbuf.Slack(time.Hour)})
			require.NoError(t, err)
			require.NoError(t, s.ForEachPending(l.add))
		},
		"silence": func(t *testing.T, r *perfbuf.Reader, l *ledger) {
			s, err := r.Stream(perfbuf.StreamOptions{})
			require.NoError(t, err)
			require.NoError(t, s.Run(t.Context(), func(ev perfbuf.Event) error {
				l.add(ev)
				if l.lost() == uint64(10*len(r.Rings())) {
					return perfbuf.ErrStop
				}
				return nil
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := kerneltest.Load(t)
			r := open(t, e, perfbuf.Options{RingBytes: 4096})
			l := newLedger(t)
			for _, ring := range r.Rings() {
				e.Emit(ring.CPU(), 63+10, 40) // 64 bytes each
			}
			end(t, r, l)
			l.balance(e, r)
			require.EqualValues(t, 10*len(r.Rings()), r.Stats().Total().Lost)
			shut(t, r)
			l.balance(e, r)
		})
	}
	t.Run("never delivered", func(t *testing.T) {
		e := kerneltest.Load(t)
		r := open(t, e, perfbuf.Options{RingBytes: 4096})
		ring := r.Rings()[0]
		e.Emit(ring.CPU(), 63+10, 40)
		require.Len(t, collect(t, perfbuf.StreamOf(t, r)), 63)
		require.Zero(t, r.Stats().Rings[0].Lost)
		shut(t, r)
		require.EqualValues(t, 10, r.Stats().Rings[0].Lost)
	})
}
