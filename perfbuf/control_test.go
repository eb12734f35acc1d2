package perfbuf

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/kernel"
	"github.com/stretchr/testify/require"
)

func TestPausePutsBackWhatWasThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 3)
		done := k.armed()
		require.NoError(t, k.emit(2, 1))
		require.NoError(t, <-done)
		require.Equal(t, []uint64{1}, ids(t, k.unordered()))
		require.NoError(t, k.emit(1, 2)) // rings 0 and 1 are armed, and this stays in its ring

		require.NoError(t, k.Pause())
		k.requireEntries(noEntry, noEntry, noEntry)
		_, sets := k.entriesNow()
		require.NoError(t, k.Pause())
		require.Equal(t, syscall.ENOENT, k.emit(0, 3))
		require.Equal(t, []uint64{2}, ids(t, k.unordered()), "what is there can be read, which disarms")
		k.requireEntries(noEntry, noEntry, noEntry)
		_, after := k.entriesNow()
		require.Equal(t, sets, after)

		require.NoError(t, k.Resume())
		k.requireEntries(bellEntry, plainEntry, plainEntry)
		require.NoError(t, k.Resume())
		_, after = k.entriesNow()
		require.Equal(t, sets+3, after)
	})
}

// While it is paused, a reader that waits decides to arm, and does so by Resume.
func TestPauseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		require.NoError(t, k.Pause())
		done := k.armed()
		k.requireEntries(noEntry, noEntry)
		require.NoError(t, k.Resume())
		k.requireEntries(bellEntry, bellEntry)
		blocked(t, done)
		require.NoError(t, k.Pause())
		time.Sleep(time.Hour)
		require.NoError(t, k.Resume())
		start := time.Now()
		require.NoError(t, k.emit(1, 1))
		require.NoError(t, <-done)
		require.Equal(t, start, time.Now())
	})
}

func TestPauseFails(t *testing.T) {
	k := newBelled(t, 3)
	fail := func(i int, _ kernel.Entry) error {
		if i == 1 {
			return errTest
		}
		return nil
	}
	k.set = fail
	err := k.Pause()
	require.ErrorIs(t, err, errTest)
	require.ErrorContains(t, err, "perfbuf.Pause")
	k.requireEntries(noEntry, plainEntry, noEntry)
	err = k.Resume()
	require.ErrorIs(t, err, errTest)
	require.ErrorContains(t, err, "perfbuf.Resume")
	k.requireEntries(plainEntry, plainEntry, plainEntry)
	k.set = nil
	require.NoError(t, k.Pause())
	k.requireEntries(noEntry, noEntry, noEntry)
	require.NoError(t, k.Resume())
	require.NoError(t, k.Pause())
	k.requireEntries(noEntry, noEntry, noEntry)
	k.set = fail
	require.ErrorIs(t, k.Resume(), errTest)
	k.requireEntries(plainEntry, noEntry, plainEntry)
	k.set = nil
	require.NoError(t, k.Resume(), "the rest")
	k.requireEntries(plainEntry, plainEntry, plainEntry)
	require.NoError(t, k.Stats().Doorbell.Err)
}

// Shutdown takes the rings out, waits for programs that are running, and delivers all.
func TestShutdown(t *testing.T) {
	for _, order := range []Order{Unordered(), Slack(time.Hour)} {
		var s *Stream
		shutdown := func(k *belled, f func(Event) error) error {
			var err error
			s, err = k.Stream(StreamOptions{Order: order})
			require.NoError(k.t, err)
			return s.Shutdown(k.t.Context(), f)
		}
		t.Run(order.String(), func(t *testing.T) {
			ready := func() *belled {
				k := newBelled(t, 2)
				k.output(0, 1, 3)
				k.programs = &fakePrograms{opened: func() error {
					if k.freed.Load() == 0 && !k.in.Gate.Closed().Load() {
						k.requireEntries(noEntry, noEntry)
						k.output(0, 5) // of a program that had found the ring
					}
					return nil
				}}
				return k
			}
			k := ready()
			var got []uint64
			collect := func(ev Event) error {
				got = append(got, id(t, ev))
				return nil
			}
			require.NoError(t, shutdown(k, collect))
			require.Equal(t, []uint64{1, 3, 5}, got)
			require.Equal(t, int32(1), k.freed.Load())
			require.Equal(t, os.ErrClosed, s.Shutdown(t.Context(), never))
			require.Zero(t, k.Stats().Total().Dropped)

			k = ready()
			require.Equal(t, errTest, shutdown(k, func(Event) error { return errTest }))
			require.Equal(t, int32(1), k.freed.Load(), "closed all the same")
			require.Equal(t, uint64(2), k.Stats().Total().Dropped)

			k = ready()
			k.programs = &fakePrograms{opened: func() error { return errTest }}
			require.ErrorIs(t, shutdown(k, never), errTest)
			require.Zero(t, k.freed.Load())
			k.requireEntries(noEntry, noEntry)
			require.NoError(t, k.Resume())
			require.NoError(t, k.emit(1, 7))
		})
	}
	t.Run("context", func(t *testing.T) {
		k := newBelled(t, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errTest)
		require.Equal(t, errTest, k.unordered().Shutdown(ctx, never))
		require.Zero(t, k.freed.Load())
		require.NoError(t, k.Resume())
	})
}

// waitersOf makes every kind of *Stream of a fake with a doorbell. A stream's events are due after
// lag.
func waitersOf(t *testing.T, f func(t *testing.T, k *belled, w *Stream, clock func() uint64, lag time.Duration)) {
	for name, c := range map[string]struct {
		make func(k *belled) (*Stream, error)
		lag  time.Duration
	}{
		"unordered": {func(k *belled) (*Stream, error) { return k.unordered(), nil }, 0},
		"slack":     {func(k *belled) (*Stream, error) { return k.Stream(StreamOptions{Order: Slack(time.Second)}) }, time.Second},
		"exact":     {func(k *belled) (*Stream, error) { return k.Stream(StreamOptions{}) }, guard + 2 + period},
	} {
		runInBubble(t, name, func(t *testing.T) {
			k := newBelled(t, 2)
			clock := k.clocked()
			k.programs = &fakePrograms{wait: func() error { time.Sleep(period); return nil }}
			w, err := c.make(k)
			require.NoError(t, err)
			f(t, k, w, clock, c.lag)
			k.Close()
		})
	}
}

func marker(time uint64) Record { return Record{Kind: KindFlushed, CPU: -1, Time: time} }

// requireMarker requires a marker for a call: of a stream, it says up to when that is complete.
func requireMarker(t *testing.T, src *Stream, call uint64, got ...Record) {
	t.Helper()
	want := call
	if src.Options().Order != Unordered() {
		want = src.Watermark()
		require.GreaterOrEqual(t, want, call)
	}
	require.Equal(t, []Record{marker(want)}, got)
}

// With nothing in the rings, a Wait that has ceased to look ends, when the marker is due: not
// before, and once.
func TestFlushEndsAWait(t *testing.T) {
	waitersOf(t, func(t *testing.T, k *belled, w *Stream, clock func() uint64, lag time.Duration) {
		for range 3 {
			done := waitInBackground(func() error { return w.Wait(t.Context()) })
			time.Sleep(time.Hour)
			blocked(t, done)
			at := clock()
			require.NoError(t, w.Flush())
			require.NoError(t, <-done)
			require.Equal(t, lag, time.Duration(clock()-at))
			requireMarker(t, w, at, copies(t, w)...)
			require.Empty(t, copies(t, w))
		}
		st := k.Stats()
		require.Zero(t, st.TimerWakes)
		require.Zero(t, st.Wakes)
	})
}

// A marker follows all events output before the call, and answers all earlier calls.
func TestFlushComesLast(t *testing.T) {
	waitersOf(t, func(t *testing.T, k *belled, w *Stream, clock func() uint64, lag time.Duration) {
		var last uint64
		for round := range 5 {
			var want []Record
			var times []uint64
			for i := range 4 {
				time.Sleep(100 * time.Microsecond)
				last = clock()
				k.output((i+round)%2, last)
				times = append(times, last)
				if i > 0 {
					require.NoError(t, w.Flush())
				}
			}
			var got []uint64
			require.NoError(t, w.Run(t.Context(), func(ev Event) error {
				if ev.Kind() == KindFlushed {
					want = append(want, unsourced(ev))
					return ErrStop
				}
				got = append(got, id(t, ev))
				return nil
			}))
			require.GreaterOrEqual(t, time.Duration(clock()-last), lag)
			require.ElementsMatch(t, times, got)
			requireMarker(t, w, last, want...)
			require.Empty(t, copies(t, w), "one for all")
		}
	})
}

// Copies of markers come of Records too.
func TestFlushRecords(t *testing.T) {
	waitersOf(t, func(t *testing.T, k *belled, w *Stream, clock func() uint64, _ time.Duration) {
		at := clock()
		require.NoError(t, w.Flush())
		for rec, err := range w.Records(t.Context()) {
			require.NoError(t, err)
			requireMarker(t, w, at, rec)
			break
		}
	})
}

// A call during a pass has a marker of its own, of the next pass; one at the end of which nobody
// looked comes again.
func TestFlushDuringAPass(t *testing.T) {
	k := newBelled(t, 2)
	k.output(0, 1, 2)
	require.NoError(t, k.unordered().Flush())
	at := k.clock.Load()
	var kinds []Kind
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		k.clock.Add(1)
		kinds = append(kinds, ev.Kind())
		return k.unordered().Flush()
	}))
	require.Equal(t, []Kind{KindSample, KindSample}, kinds, "the call of before is answered by the next too")
	k.output(1, 3)
	require.NoError(t, k.unordered().ForEach(func(Event) error { return ErrStop }))
	require.Equal(t, []Record{marker(at + 2)}, copies(t, k.unordered()))
	require.Empty(t, copies(t, k.unordered()))

	require.NoError(t, k.unordered().Flush())
	kinds = nil
	require.NoError(t, k.unordered().ForEach(func(ev Event) error {
		kinds = append(kinds, ev.Kind())
		if len(kinds) < 3 {
			return k.unordered().Flush() // in the function that has the marker
		}
		return nil
	}))
	require.Equal(t, []Kind{KindFlushed}, kinds)
	require.Len(t, copies(t, k.unordered()), 1)
}

// ForEachPending delivers no marker that is not proven. A call goes with its stream.
func TestFlushAndTheEndOfAStream(t *testing.T) {
	for _, mode := range []Order{Slack(time.Hour), {}} {
		k := newBelled(t, 2)
		k.programs = &fakePrograms{}
		s, _ := k.stepped(1_000_000, StreamOptions{Order: mode})
		k.output(1, 999_000)
		require.NoError(t, s.Flush())
		require.Empty(t, copies(t, s))
		var recs []Record
		f := func(ev Event) error {
			recs = append(recs, unsourced(ev))
			return nil
		}
		require.NoError(t, s.ForEachPending(f))
		require.Len(t, recs, 1)
		require.Empty(t, copies(t, s))
		require.NoError(t, s.Close())
		require.Equal(t, os.ErrClosed, s.Flush())
		require.Empty(t, copies(t, k.unordered()))
	}
}

// A stream of one ring has markers of its own, which end its Wait.
func TestFlushOfARing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		first, second := k.ring(0), k.ring(1)
		for range 3 {
			other := waitInBackground(func() error { return second.Wait(t.Context()) })
			done := waitInBackground(func() error { return first.Wait(t.Context()) })
			time.Sleep(time.Hour)
			blocked(t, done)
			require.NoError(t, first.Flush())
			require.NoError(t, <-done)
			require.Equal(t, []Record{marker(k.clock.Load())}, copies(t, first))
			require.Empty(t, copies(t, first))
			blocked(t, other)
			require.NoError(t, second.Flush())
			require.NoError(t, <-other)
			require.NoError(t, second.Wait(t.Context()), "until a pass has answered")
			require.Len(t, copies(t, second), 1)
		}
		k.output(0, 1)
		require.NoError(t, first.Flush())
		require.Equal(t, []Kind{KindSample, KindFlushed}, []Kind{copies(t, first)[0].Kind, KindFlushed})
		require.NoError(t, k.Close())
		require.Equal(t, os.ErrClosed, first.Flush())
	})
}

// Markers have their place in the order: none has a time below that of the event before it.
func TestFlushTimesDoNotGoBack(t *testing.T) {
	k := newBelled(t, 2)
	s, b := k.stepped(5_000_000, StreamOptions{})
	require.NoError(t, s.Flush())
	k.output(0, 4_000_000, 5_000_000, 5_500_000)
	k.output(1, 5_200_000, 9_999_999)
	k.clock.Store(8_000_000)
	require.NoError(t, b.Round())
	recs := copies(t, s)
	require.Len(t, recs, 5)
	require.Equal(t, marker(8_000_000-guard-1), recs[4])

	// Events up to the time of the call hold it back, whether or not they are seen when it is due.
	k.clock.Store(20_000_000)
	require.NoError(t, s.Flush())
	k.clock.Store(21_000_000)
	require.Empty(t, copies(t, s))
	require.True(t, b.Requested())
	require.NoError(t, b.Round())
	require.NoError(t, s.ForEach(func(ev Event) error {
		require.Equal(t, uint64(9_999_999), ev.Time())
		return ErrStop
	}))
	require.Equal(t, []Record{marker(21_000_000 - guard - 1)}, copies(t, s))

	// ForEachPending delivers events without proof. A marker waits for the proof.
	k.output(0, 30_000_000)
	require.NoError(t, s.Flush())
	k.clock.Store(25_000_000)
	require.NoError(t, b.Round())
	require.NoError(t, s.ForEachPending(func(ev Event) error { require.Equal(t, KindSample, ev.Kind()); return nil }))
	require.Empty(t, copies(t, s))
	k.clock.Store(31_000_000)
	require.NoError(t, b.Round())
	require.Equal(t, []Record{marker(31_000_000 - guard - 1)}, copies(t, s))
}

// Of two calls at the same time, the marker that answers both is of the later one.
func TestFlushCallsAtTheSameTime(t *testing.T) {
	k := newBelled(t, 1)
	s := k.open(StreamOptions{Order: Slack(0)})
	now, inner := uint64(1000), false
	k.hooks.clock = func() uint64 {
		at := now
		if !inner { // the other call comes between reading the clock and storing
			inner, now = true, 2000
			k.output(0, 1500)
			require.NoError(t, s.Flush())
		}
		return at
	}
	require.NoError(t, s.Flush())
	now = 1400
	require.Empty(t, copies(t, s))
	now = 2000
	recs := copies(t, s)
	require.Len(t, recs, 2)
	require.Equal(t, marker(2000), recs[1])
}

// A Pause that fails leaves entries in the map: their rings are not armed in name only.
func TestFailedPauseDoesNotStrandEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBelled(t, 2)
		k.set = func(ring int, to kernel.Entry) error {
			if ring == 1 {
				return errTest
			}
			return nil
		}
		require.ErrorIs(t, k.Pause(), errTest)
		require.ErrorIs(t, k.Resume(), errTest)
		k.requireEntries(plainEntry, plainEntry)
		require.ErrorIs(t, k.Stats().Doorbell.Err, errTest)
		ctx, cancel := context.WithCancel(t.Context())
		done := waitInBackground(func() error { return k.unordered().Wait(ctx) })
		time.Sleep(5 * bellPollInterval)
		synctest.Wait()
		require.Zero(t, k.Stats().Doorbell.Armed, "it is looked at by the timer")
		k.set = nil
		require.NoError(t, k.Resume())
		require.NoError(t, k.Stats().Doorbell.Err)
		time.Sleep(5 * bellPollInterval)
		synctest.Wait()
		k.requireEntries(bellEntry, bellEntry)
		cancel()
		require.Equal(t, context.Canceled, <-done)
	})
}
