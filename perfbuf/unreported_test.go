package perfbuf

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/ringfold/ringfold/internal/stream"
	"github.com/stretchr/testify/require"
)

// silence is how long a ring must be silent to be asked about.
const silence = stream.AskAfter

// overflow fills a ring at a time, has so many outputs fail, and returns how many did not.
func (k *fake) overflow(ring int, time uint64, fail int) (n int) {
	k.t.Helper()
	for ; fail > 0; time++ {
		if k.w[ring].Output(time, ringtest.Payload(time, 12)) != nil {
			fail--
		} else {
			n++
		}
	}
	return n
}

// losses takes the losses of some records out.
func losses(recs []Record) (lost []Record) {
	for _, r := range recs {
		if r.Kind == KindLost {
			lost = append(lost, r)
		}
	}
	return lost
}

// A CPU whose ring was full and that goes silent has its loss delivered after a while, once, though
// nothing is output that could report it. Other rings are not asked about, nor is this one for
// long.
func TestLossOfASilentCPU(t *testing.T) {
	for name, o := range map[string]StreamOptions{"slack": {Order: Slack(time.Millisecond)}, "exact": {}} {
		runInBubble(t, name, func(t *testing.T) {
			k, s, clock := exact(t, 3, Options{}, o)
			k.counts = true
			ctx, cancel := context.WithCancel(context.Background())
			var mu sync.Mutex
			var all []Record
			seen := func() []Record { mu.Lock(); defer mu.Unlock(); return slices.Clone(all) }
			done := waitInBackground(func() error {
				return s.Run(ctx, func(ev Event) error {
					mu.Lock()
					defer mu.Unlock()
					all = append(all, unsourced(ev))
					return nil
				})
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Zero(t, k.asked.Load())
			at := clock()
			n := k.overflow(1, at, 7)
			k.output(0, at)
			k.poll.wake()
			time.Sleep(silence - time.Millisecond)
			synctest.Wait()
			require.Empty(t, losses(seen()), "it may yet report")
			time.Sleep(2*silence + period)
			synctest.Wait()
			recs := seen()
			require.Equal(t, []Record{{Kind: KindLost, CPU: firstCPU + 1, Time: losses(recs)[0].Time, Lost: 7, LostAfter: at + uint64(n) - 1}}, losses(recs))
			require.Greater(t, losses(recs)[0].Time, at+uint64(n)+7, "after the last that failed")
			require.LessOrEqual(t, losses(recs)[0].Time, clock())
			require.Len(t, recs, n+2)
			require.EqualValues(t, 7, k.Stats().Total().Lost)
			require.EqualValues(t, 1, k.asked.Load())
			time.Sleep(time.Hour)
			synctest.Wait()
			require.EqualValues(t, 1, k.asked.Load())

			// The record that reports it says nothing new. One that reports more is cut.
			k.output(1, clock())
			k.poll.wake()
			time.Sleep(time.Second)
			synctest.Wait()
			recs = seen()
			require.Len(t, losses(recs), 1)
			require.Len(t, recs, n+3)
			cancel()
			<-done
			require.NoError(t, s.Close())
			require.NoError(t, k.Close())
			require.EqualValues(t, 7, k.Stats().Total().Lost)
		})
	}
}

// A CPU that goes on reports its losses itself: it is not asked, as that interrupts it.
func TestBusyCPUsAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s, clock := timed(t, 1, Options{}, 0)
		k.counts = true
		lost := 0
		for i := range 50 {
			k.overflow(0, clock(), i%3+1)
			for _, r := range losses(copies(t, s)) {
				lost += int(r.Lost)
			}
			time.Sleep(silence - time.Millisecond)
		}
		require.Zero(t, k.asked.Load())
		k.output(0, clock())
		for _, r := range losses(copies(t, s)) {
			lost += int(r.Lost)
		}
		require.EqualValues(t, k.w[0].Lost(), lost)
	})
}

// A ring that stays full is asked about now and then, however often the stream looks at it.
func TestRingThatStaysFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newFake(t, 1, Options{})
		start := time.Now()
		k.hooks.clock = func() uint64 { return uint64(time.Hour + time.Since(start)) }
		k.counts = true
		s := k.open(StreamOptions{Order: Slack(time.Minute), Spill: Spill{Bytes: -1}})
		n := k.overflow(0, k.hooks.clock(), 5)
		var recs []Record
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		time.Sleep(time.Minute / 2)
		require.Error(t, k.w[0].Output(0, ringtest.Payload(0, 12)))
		require.NoError(t, <-done)
		require.Positive(t, k.asked.Load())
		require.LessOrEqual(t, k.asked.Load(), int32(time.Minute/silence)+1)
		time.Sleep(2 * time.Minute)
		recs = copies(t, s)
		require.Len(t, recs[:n], n)
		total := uint64(0)
		for _, r := range losses(recs) {
			total += r.Lost
		}
		require.EqualValues(t, 6, total)
	})
}

// However a stream that reported a loss ends, the next reader does not report it again.
func TestLossIsToldOnce(t *testing.T) {
	next := map[string]func(k *fake, s *Stream) *Stream{
		"same stream": func(_ *fake, s *Stream) *Stream { return s },
		"next stream": func(k *fake, s *Stream) *Stream { s.Close(); return k.stream() },
		"third stream": func(k *fake, s *Stream) *Stream {
			s.Close()
			k.stream().Close()
			return k.stream()
		},
		"unordered": func(k *fake, s *Stream) *Stream { s.Close(); return k.unordered() },
		"stream after reader": func(k *fake, s *Stream) *Stream {
			s.Close()
			require.NoError(k.t, k.unordered().ForEach(never))
			k.unordered().Close()
			return k.stream()
		},
	}
	for name, next := range next {
		for more := range 3 {
			t.Run(name, func(t *testing.T) {
				k := newFake(t, 2, Options{})
				k.counts = true
				s := k.stream()
				n := k.overflow(0, 1000, 4)
				var told []Record
				require.NoError(t, s.ForEachPending(func(ev Event) error { told = append(told, unsourced(ev)); return nil }))
				require.Len(t, told, n+1)
				require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Time: k.clock.Load(), Lost: 4, LostAfter: 1000 + uint64(n) - 1}, told[n])
				require.NoError(t, s.ForEachPending(never))

				// The kernel loses more before it can report. Nobody is asked until then.
				at := k.clock.Add(1000)
				if more > 0 {
					tail := k.w[0].Tail()
					k.w[0].SetTail(k.w[0].Head() - fakeRingSize + 8) // as if it were still full
					for range more {
						require.Error(t, k.w[0].Output(at, ringtest.Payload(at, 12)))
					}
					k.w[0].SetTail(tail)
				}
				k.clock.Add(1000)
				src := next(k, s)
				k.output(0, at+1)
				var lost, samples uint64
				for _, r := range copies(t, src) {
					lost += r.Lost
					if r.Kind == KindSample {
						samples++
					} else {
						require.Equal(t, at+1, r.Time)
					}
				}
				require.EqualValues(t, more, lost)
				require.EqualValues(t, 1, samples)
				require.EqualValues(t, 4+more, k.Stats().Rings[0].Lost)

				// Later losses are reported as usual.
				m := k.overflow(0, at+2, 3)
				require.Len(t, copies(t, src), m)
				k.output(0, at+500)
				require.EqualValues(t, 3, losses(copies(t, src))[0].Lost)
				require.NoError(t, k.Close())
				require.EqualValues(t, 4+more+3, k.Stats().Rings[0].Lost)
				k.account(t, 0, uint64(n+4+more+1+m+3+1))
			})
		}
	}
}

// A loss is not delivered twice if a record reports it while the stream asks the kernel.
func TestLossReportedWhileAskedAbout(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.counts = true
	s := k.stream()
	n := k.overflow(0, 1000, 4)
	require.Len(t, ids(t, s), n)
	at := k.clock.Load()
	lost := k.hooks.lost
	k.hooks.lost = func(i int) (uint64, bool) {
		k.hooks.lost = lost
		k.output(0, at) // with a record that says 4; it is behind the head that was loaded
		return lost(i)
	}
	var recs []Record
	take := func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }
	require.NoError(t, s.ForEachPending(take))
	require.NoError(t, s.ForEachPending(take))
	require.Len(t, losses(recs), 1)
	require.EqualValues(t, 4, losses(recs)[0].Lost)
	require.Len(t, recs, 2)
	require.EqualValues(t, 4, k.Stats().Total().Lost)
}

// The kernel's count already covers the loss that a held record reports.
func TestLossReportedAndHeld(t *testing.T) {
	k := newFake(t, 1, Options{})
	k.counts = true
	s := k.slow(Spill{Bytes: 8 * block})
	base := k.clock.Load()
	n := k.overflow(0, base, 4)
	require.Empty(t, ids(t, s))
	k.output(0, base+1000)
	require.Empty(t, ids(t, s)) // it is seen and held
	var recs []Record
	require.NoError(t, s.ForEachPending(func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }))
	require.Equal(t, []Record{{Kind: KindLost, CPU: firstCPU, Time: base + 1000, LostAfter: base + uint64(n) - 1, Lost: 4}}, losses(recs))
	require.EqualValues(t, 4, k.Stats().Total().Lost)
}

// A loss that a closed stream held and dropped is counted, but not delivered by another stream. It
// does not hide later losses.
func TestLossDroppedWithItsStream(t *testing.T) {
	for name, counts := range map[string]bool{"the kernel counts": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			k.counts = counts
			s := k.slow(Spill{Bytes: 8 * block})
			base := k.clock.Load()
			n := k.overflow(0, base, 4)
			require.Empty(t, ids(t, s))
			k.output(0, base+1000)
			require.Empty(t, ids(t, s))
			require.NoError(t, s.Close())
			st := k.Stats().Total()
			require.EqualValues(t, n+1, st.Dropped)
			require.EqualValues(t, 4, st.Lost)

			s = k.stream()
			require.NoError(t, s.ForEachPending(never))
			m := k.overflow(0, base-2000, 3)
			require.Len(t, ids(t, s), m)
			k.output(0, base-500)
			recs := copies(t, s)
			require.Len(t, recs, 2)
			require.EqualValues(t, 3, recs[0].Lost)
			require.NoError(t, k.Close())
			k.account(t, 0, uint64(n+4+1+m+3+1))
		})
	}
}

// A kernel that does not count says nothing before the record does.
func TestLossWithoutTheKernelsCount(t *testing.T) {
	k := newFake(t, 1, Options{})
	s := k.stream()
	n := k.overflow(0, 1000, 4)
	require.Len(t, ids(t, s), n)
	require.NoError(t, s.ForEachPending(never))
	k.output(0, 5000)
	require.EqualValues(t, 4, losses(copies(t, s))[0].Lost)
}

// Drain ends complete: programs that were running have ended, and unreported losses are delivered.
func TestDrainOfAStream(t *testing.T) {
	for name, mode := range map[string]Order{"slack": Slack(time.Hour), "exact": {}} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 2, Options{})
			k.counts = true
			s, _ := k.stepped(1<<40, StreamOptions{Order: mode})
			base := k.clock.Load()
			k.output(1, base)
			require.Empty(t, ids(t, s))
			n := 0
			k.programs.opened = func() error { // the last that ran
				n = k.overflow(0, base-1, 2)
				k.clock.Add(1000)
				k.programs.opened = nil
				return nil
			}
			var recs []Record
			take := func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }
			require.NoError(t, s.Drain(t.Context(), take))
			require.Len(t, recs, n+2)
			require.IsNonDecreasing(t, timesOf(recs))
			require.EqualValues(t, 2, recs[n+1].Lost)
			require.Zero(t, k.Stats().Late)

			k.programs.opened = func() error { return errTest }
			k.output(1, base+2000)
			if mode == (Order{}) { // its barrier can still wait
				require.NoError(t, s.Drain(t.Context(), take))
			} else {
				require.ErrorIs(t, s.Drain(t.Context(), never), errTest)
				require.ErrorContains(t, s.Drain(t.Context(), never), "Stream.ForEachPending reads without waiting")
				require.NoError(t, s.ForEachPending(take), "nothing is lost")
			}
			require.EqualValues(t, base+2000, recs[n+2].Time)
		})
	}
}

// Drain while programs go on delivers their earlier outputs, and leaves unproven ones: later events
// are in order.
func TestDrainBesidePrograms(t *testing.T) {
	for _, mode := range []Order{Slack(time.Hour), {}} {
		t.Run(mode.String(), func(t *testing.T) {
			k := newFake(t, 2, Options{})
			s, barrier := k.stepped(5_000_000, StreamOptions{Order: mode})
			k.output(0, 4_000_000)
			waits := 0
			k.programs.opened = func() error {
				waits++
				k.clock.Add(1_000_000)
				// By one that ran at the first wait, and ended with it; or by one that began after
				// that
				k.output(0, k.clock.Load()-100)
				return nil
			}
			require.NoError(t, s.Flush())
			recs := []Record{}
			require.NoError(t, s.Drain(t.Context(), func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }))
			require.Equal(t, 2, waits)
			require.Equal(t, []uint64{4_000_000, 5_999_900, 5_999_900}, timesOf(recs))
			require.Equal(t, KindFlushed, recs[2].Kind)
			require.Less(t, s.Watermark(), uint64(6_000_000))

			k.output(1, 6_500_000) // by one that had taken its time before the other
			k.programs.opened = nil
			k.clock.Store(10_000_000)
			if mode == (Order{}) {
				require.NoError(t, barrier.Round())
				recs = copies(t, s)
			} else {
				recs = nil
				require.NoError(t, s.Drain(t.Context(), func(ev Event) error { recs = append(recs, unsourced(ev)); return nil }))
			}
			require.Equal(t, []uint64{6_500_000, 6_999_900}, timesOf(recs))
			require.Zero(t, k.Stats().Late)
		})
	}
}

// While a stream waits for a silent CPU, other events wait no longer than the poll interval.
func TestPollIntervalWhileACPUIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 5 * time.Millisecond
		k, s, clock := timed(t, 2, Options{Wakeup: Wakeup{Bytes: 8 * recordSize, PollInterval: interval}}, 0)
		k.counts = true
		k.overflow(0, clock()-1000, 1)
		require.NoError(t, s.Wait(t.Context()))
		require.NotEmpty(t, ids(t, s))
		done := waitInBackground(func() error { return s.Wait(t.Context()) })
		at := clock()
		k.output(1, at) // wakes nobody
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Duration(clock()-at), interval)
		require.Equal(t, []uint64{at}, ids(t, s))
	})
}

// A loss that a record reports while the kernel is asked stands before that record's sample.
func TestLossIsLeftToTheRecordThatReportsIt(t *testing.T) {
	k := newFake(t, 1, Options{})
	s := k.stream()
	n := k.overflow(0, 1, 2)
	require.Len(t, ids(t, s), n)
	k.hooks.lost = func(int) (uint64, bool) {
		if k.w[0].Pending() > 0 {
			k.output(0, 500)
		}
		return k.w[0].Lost(), true
	}
	var got []Record
	keep := func(ev Event) error { got = append(got, unsourced(ev)); return nil }
	require.NoError(t, s.ForEachPending(keep))
	require.NoError(t, s.ForEachPending(keep))
	require.Len(t, got, 2)
	require.Equal(t, KindLost, got[0].Kind)
	require.EqualValues(t, 2, got[0].Lost)
	require.Equal(t, KindSample, got[1].Kind)
	require.Equal(t, got[1].Time, got[0].Time)
}
