package perfbuf

import (
	"context"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// However a pass ends, the watermark stays before what f has not had.
func TestWatermarkOfPassesThatEndEarly(t *testing.T) {
	for how, end := range map[string]func(k *fake, s *Stream) error{
		"error":        func(*fake, *Stream) error { return errTest },
		"ErrStop":      func(*fake, *Stream) error { return ErrStop },
		"panic":        func(*fake, *Stream) error { panic(errTest) },
		"Goexit":       func(*fake, *Stream) error { runtime.Goexit(); return nil },
		"Close":        func(_ *fake, s *Stream) error { return s.Close() },
		"Reader.Close": func(k *fake, _ *Stream) error { return k.Close() },
	} {
		for pass, read := range map[string]func(s *Stream, f func(Event) error) error{
			"ForEach":        (*Stream).ForEach,
			"ForEachPending": (*Stream).ForEachPending,
			"Drain":          func(s *Stream, f func(Event) error) error { return s.Drain(t.Context(), f) },
		} {
			t.Run(how+", "+pass, func(t *testing.T) {
				k := newFake(t, 2, Options{})
				s, b := k.stepped(5_000_000, StreamOptions{})
				k.output(0, 1_000_000, 3_000_000)
				k.output(1, 2_000_000, 4_000_000)
				require.NoError(t, b.Round())
				done := make(chan bool)
				go func() {
					defer close(done)
					defer func() { recover() }()
					read(s, func(ev Event) error {
						if s.Watermark() != 0 {
							t.Error("the events are with f")
						}
						if ev.Time() == 2_000_000 {
							return end(k, s)
						}
						return nil
					})
				}()
				<-done
				require.EqualValues(t, 2_999_999, s.Watermark())
				if how == "Close" || how == "Reader.Close" {
					require.Equal(t, os.ErrClosed, s.ForEach(never))
				} else {
					require.Equal(t, []uint64{3_000_000, 4_000_000}, ids(t, s))
					require.EqualValues(t, 5_000_000-guard-1, s.Watermark())
					require.NoError(t, s.Close())
				}
				want := s.Watermark()
				require.NoError(t, k.Close())
				require.Equal(t, want, s.Watermark())
			})
		}
	}
}

// ForEachPending proves nothing that was not proven before. Drain and Shutdown do, as they wait.
func TestWatermarkOfPassesOverEverything(t *testing.T) {
	ignore := func(Event) error { return nil }
	for pass, c := range map[string]struct {
		read         func(s *Stream) error
		exact, slack uint64
	}{
		"ForEachPending": {func(s *Stream) error { return s.ForEachPending(ignore) }, 2_000_000 - guard - 1, 2_500_000},
		// It waits once more
		"Drain":    {func(s *Stream) error { return s.Drain(t.Context(), ignore) }, 3_500_000 - guard - 1, 3_500_000 - guard - 1},
		"Shutdown": {func(s *Stream) error { return s.Shutdown(t.Context(), ignore) }, 3_000_000 - guard - 1, 3_000_000 - guard - 1},
	} {
		for mode, want := range map[Order]uint64{{}: c.exact, Slack(time.Millisecond): c.slack} {
			t.Run(pass+", "+mode.String(), func(t *testing.T) {
				k := newFake(t, 2, Options{})
				s, b := k.stepped(2_000_000, StreamOptions{Order: mode})
				if b != nil {
					require.NoError(t, b.Round())
				}
				k.clock.Store(3_000_000)
				// It takes time
				k.programs.opened = func() error { k.clock.Add(500_000); return nil }
				if pass == "ForEachPending" {
					k.clock.Add(500_000)
				}
				k.output(0, 3_000_000)
				k.output(1, 3_400_000)
				require.NoError(t, c.read(s))
				require.Equal(t, want, s.Watermark())
			})
		}
	}
}

// Drain that cannot wait leaves the watermark where it was.
func TestWatermarkOfADrainThatFails(t *testing.T) {
	k := newFake(t, 1, Options{})
	s, _ := k.stepped(2_000_000, StreamOptions{})
	k.programs.opened = func() error { return errTest }
	k.programs.wait = k.programs.opened
	require.ErrorIs(t, s.Drain(t.Context(), never), errTest)
	require.Zero(t, s.Watermark())
}

// Who sees a time, from any goroutine, sees what f has done with the events up to it: for the race
// detector.
func TestWatermarkFromAnotherGoroutine(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.open(StreamOptions{Order: Slack(0)})
	const n = 500
	var had [n + 1]bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for last := uint64(0); last < n; {
			w := s.Watermark()
			for ; last < min(w, n); last++ {
				if !had[last+1] {
					t.Errorf("at %d, f has not had the event of %d", w, last+1)
					return
				}
			}
			runtime.Gosched()
		}
	}()
	for i := range uint64(n) {
		k.clock.Store(i + 1)
		k.output(int(i%2), i+1)
		require.NoError(t, s.ForEach(func(ev Event) error { had[ev.Time()] = true; return nil }))
	}
	<-done
}

// A stream that flushes itself gets up once per interval, and in exact mode makes one barrier,
// though nothing happens.
func TestFlushEveryOnAnIdleSystem(t *testing.T) {
	const every = 100 * time.Millisecond
	for name, c := range map[string]struct {
		opts  Options
		order StreamOptions
		lag   time.Duration
	}{
		"slack":               {Options{}, StreamOptions{Order: Slack(10 * time.Millisecond)}, 10 * time.Millisecond},
		"exact":               {Options{}, StreamOptions{}, guard + 2 + period},
		"exact, payload":      {Options{NoTime: true, Time: PayloadTime(0)}, StreamOptions{}, guard + 2 + period},
		"exact, seldom woken": {Options{Wakeup: Wakeup{Bytes: 1024}}, StreamOptions{}, guard + 2 + period},
	} {
		for way, read := range map[string]func(ctx context.Context, s *Stream, f func(rec Record) error) error{
			"Run": func(ctx context.Context, s *Stream, f func(rec Record) error) error {
				return s.Run(ctx, func(ev Event) error { return f(unsourced(ev)) })
			},
			"Records": func(ctx context.Context, s *Stream, f func(rec Record) error) error {
				for rec, err := range s.Records(ctx) {
					if err != nil {
						return err
					}
					if f(rec) != nil {
						break
					}
				}
				return nil
			},
			"Wait": func(ctx context.Context, s *Stream, f func(rec Record) error) error {
				for {
					if err := s.Wait(ctx); err != nil {
						return err
					}
					stopped := false
					if err := s.ForEach(func(ev Event) error {
						err := f(unsourced(ev))
						stopped = err != nil
						return err
					}); err != nil || stopped {
						return err
					}
				}
			},
		} {
			runInBubble(t, name+", "+way, func(t *testing.T) {
				c.order.FlushEvery = every
				k, s, clock := exact(t, 2, c.opts, c.order)
				const n = 20
				last, waits := clock(), k.programs.waits.Load()
				got := 0
				require.NoError(t, read(t.Context(), s, func(rec Record) error {
					requireMarker(t, s, last+uint64(every), rec)
					require.InDelta(t, last+uint64(every), rec.Time, 1)
					require.Equal(t, c.lag, time.Duration(clock()-(last+uint64(every))))
					last = rec.Time
					if got++; got == n {
						return ErrStop
					}
					return nil
				}))
				require.EqualValues(t, n, k.Stats().Passes)
				require.LessOrEqual(t, k.poll.waits.Load(), int32(n+1))
				if c.order.Order == (Order{}) {
					require.EqualValues(t, n, k.programs.waits.Load()-waits)
				}
			})
		}
	}
}

// While events flow, markers come between them, each at its place, and cost no barriers of their
// own.
func TestFlushEveryWhileEventsFlow(t *testing.T) {
	const every = 50 * time.Millisecond
	for _, mode := range []Order{{}, Slack(5 * time.Millisecond)} {
		runInBubble(t, mode.String(), func(t *testing.T) {
			k, s, clock := exact(t, 3, Options{}, StreamOptions{Order: mode, FlushEvery: every, BarrierInterval: -1})
			var last, marked uint64
			markers, events := 0, 0
			done := waitInBackground(func() error {
				return s.Run(t.Context(), func(ev Event) error {
					require.GreaterOrEqual(t, ev.Time(), last)
					last = ev.Time()
					if ev.Kind() != KindFlushed {
						require.Greater(t, ev.Time(), s.Watermark(), "it is with f")
						if events++; events == 2000 {
							return ErrStop
						}
						return nil
					}
					require.Equal(t, s.Watermark(), ev.Time())
					if markers++; markers > 1 {
						require.GreaterOrEqual(t, ev.Time()-marked, uint64(every))
						require.Less(t, ev.Time()-marked, uint64(every+2*period+2*guard))
					}
					marked = ev.Time()
					return nil
				})
			})
			for i := range 2000 {
				time.Sleep(time.Millisecond)
				k.output(i%3, clock())
				k.poll.wake()
			}
			require.NoError(t, <-done)
			require.Greater(t, markers, 30)
		})
	}
}

// Where barriers fail, a stream cannot deliver its markers.
func TestFlushEveryWhileBarriersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := exact(t, 1, Options{}, StreamOptions{FlushEvery: time.Second})
		k.programs.wait = func() error { return errTest }
		start := clock()
		require.ErrorIs(t, s.Run(t.Context(), never), ErrBarriers)
		require.Greater(t, time.Duration(clock()-start), 2*time.Second)
		require.Zero(t, s.Watermark())
	})
}

// Drain and Shutdown, which are the end, deliver a marker for calls before them, behind events and
// losses of any time.
func TestFlushBeforeTheEnd(t *testing.T) {
	for end, read := range map[string]func(s *Stream, f func(Event) error) error{
		"Drain":    func(s *Stream, f func(Event) error) error { return s.Drain(t.Context(), f) },
		"Shutdown": func(s *Stream, f func(Event) error) error { return s.Shutdown(t.Context(), f) },
	} {
		for _, mode := range []Order{{}, Slack(time.Second)} {
			t.Run(end+", "+mode.String(), func(t *testing.T) {
				k := newFake(t, 2, Options{})
				s, _ := k.stepped(3_000_000, StreamOptions{Order: mode})
				k.output(0, 2_000_000, 3_400_000)
				require.NoError(t, s.Flush())
				var got []Record
				require.NoError(t, read(s, func(ev Event) error {
					got = append(got, unsourced(ev))
					return nil
				}))
				require.Len(t, got, 3)
				require.Equal(t, marker(3_400_000), got[2])
				require.EqualValues(t, 3_000_000-guard-1, s.Watermark())
			})
		}
	}
}
