package perfbuf

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

const guard = grace.DefaultGuard

// Nothing is delivered before a barrier has ended that began after it.
func TestExactDeliversBehindABarrierOnly(t *testing.T) {
	k := newFake(t, 2, Options{})
	k.programs = &fakePrograms{}
	s, b := k.stepped(0, StreamOptions{})
	k.output(0, 1_000_000)
	k.clock.Store(10_000_000)
	require.Empty(t, ids(t, s), "however old it is")
	require.True(t, b.Requested())

	// What is output during the grace period, be it older, is not covered by it.
	k.programs.wait = func() error {
		k.output(1, 10_000_000-guard-1, 10_000_000-guard)
		k.output(0, 10_500_000)
		k.clock.Store(12_000_000)
		require.Zero(t, b.Watermark())
		return nil
	}
	require.NoError(t, b.Round())
	require.Equal(t, []uint64{1_000_000, 10_000_000 - guard - 1}, ids(t, s))
	k.programs.wait = nil
	require.NoError(t, b.Round())
	require.Equal(t, []uint64{10_000_000 - guard, 10_500_000}, ids(t, s))
	require.Zero(t, k.Stats().Late)
}

// The watermark is loaded before the heads: a barrier that ends in between covers no event below
// those heads, and events that it covers are delivered in order.
func TestExactWatermarkIsLoadedBeforeTheHeads(t *testing.T) {
	k := newFake(t, 2, Options{})
	s, b := k.stepped(5_000_000, StreamOptions{})
	k.output(1, 2_000_000)
	once := true
	k.hooks.yield = func() { // before ring 0's head is loaded, or, the second time, ring 1's
		if once = !once; once {
			k.output(0, 1_000_000) // its head has been loaded: the round does not have it
			require.NoError(t, b.Round())
		}
	}
	require.Empty(t, ids(t, s), "1000000 would be late")
	k.hooks.yield = nil
	require.Equal(t, []uint64{1_000_000, 2_000_000}, ids(t, s))
	require.Zero(t, k.Stats().Late)
}

// An event published after the barrier ends and before the heads are loaded is in order.
func TestExactTakesWhatIsVisible(t *testing.T) {
	k := newFake(t, 2, Options{})
	s, b := k.stepped(5_000_000, StreamOptions{})
	k.output(1, 2_000_000, 4_000_000)
	require.NoError(t, b.Round())
	k.hooks.yield = func() {
		k.hooks.yield = nil
		k.output(0, 1_000_000, 3_000_000)
	}
	require.Equal(t, []uint64{1_000_000, 2_000_000, 3_000_000, 4_000_000}, ids(t, s))
}

// A barrier is asked for only if it will cover something, and not if one asked for before will.
func TestExactRequests(t *testing.T) {
	k := newFake(t, 1, Options{})
	const at = 1_000_000
	s, b := k.stepped(at, StreamOptions{})
	for range 3 {
		require.Empty(t, ids(t, s))
		require.False(t, b.Requested(), "nothing is held")
	}
	k.output(0, at)
	for _, now := range []uint64{at, at + guard, at + guard + 1} {
		k.clock.Store(now)
		require.Empty(t, ids(t, s))
		require.False(t, b.Requested(), "at %d: it would not be covered", now)
	}
	k.clock.Store(at + guard + 2)
	require.Empty(t, ids(t, s))
	require.True(t, b.Requested())
	k.programs.wait = func() error {
		k.clock.Store(2 * at)
		require.Empty(t, ids(t, s))
		require.False(t, b.Requested(), "the one under way covers it")
		k.output(0, 2*at-2*guard)
		return nil
	}
	require.NoError(t, b.Round())
	require.Equal(t, []uint64{at}, ids(t, s), "one that began %d ns after it suffices", guard+2)
	require.True(t, b.Requested(), "for the other")
	k.programs.wait = nil
	require.NoError(t, b.Round())
	require.Equal(t, []uint64{2*at - 2*guard}, ids(t, s))
	require.False(t, b.Requested())
	require.EqualValues(t, 2, k.programs.waits.Load())
}

// What is due already needs no barrier, though a round left it.
func TestExactRequestsNothingForWhatIsDue(t *testing.T) {
	k := newFake(t, 1, Options{})
	s, b := k.stepped(5_000_000, StreamOptions{})
	k.output(0, 1_000_000, 2_000_000)
	require.NoError(t, b.Round())
	require.NoError(t, s.ForEach(func(Event) error { return ErrStop }))
	require.False(t, b.Requested())
	require.Equal(t, []uint64{2_000_000}, ids(t, s))
}

// A barrier that failed is asked for anew.
func TestExactRequestsAgainAfterAFailure(t *testing.T) {
	k := newFake(t, 1, Options{})
	s, b := k.stepped(5_000_000, StreamOptions{})
	k.output(0, 1_000_000)
	require.Empty(t, ids(t, s))
	k.programs.wait = func() error { return errTest }
	for range 3 {
		require.True(t, b.Requested())
		require.Equal(t, errTest, b.Round())
		require.False(t, b.Requested())
		require.Empty(t, ids(t, s), "the time has not moved on since the request")
	}
	st := k.Stats().Barrier
	require.ErrorIs(t, st.Err, errTest)
	require.Equal(t, BarrierStats{Provider: "fake", Failed: 3, Err: st.Err}, st)
	k.programs.wait = nil
	require.NoError(t, b.Round())
	require.Equal(t, []uint64{1_000_000}, ids(t, s))
	require.EqualValues(t, 1, k.Stats().Barrier.Count)
}

// Without a way to wait there is no exact mode, never a weaker one; a slack needs none.
func TestExactNeedsAProvider(t *testing.T) {
	k := newFake(t, 2, Options{CPUs: []int{10, 11}})
	_, err := k.Stream(StreamOptions{})
	require.ErrorIs(t, err, os.ErrInvalid)
	require.ErrorContains(t, err, "exact mode cannot prove completeness here (Slack(d)")
	k.output(1, 1)
	require.Equal(t, []uint64{1}, ids(t, k.ring(1)), "all rings are given back")
	require.Empty(t, k.Stats().Barrier)
	k.release()
	require.NoError(t, k.slack(1).Close())

	k.programs = &fakePrograms{opened: func() error { return errTest }}
	_, err = k.Stream(StreamOptions{Barriers: BindMount})
	require.ErrorIs(t, err, errTest)
	require.Equal(t, grace.Options{Allow: grace.BindMount}, k.programs.options)
	require.ErrorIs(t, k.slack(1).Drain(t.Context(), never), errTest)
}

// Rings stay claimed while a provider is opened, which takes a grace period; Close may come
// meanwhile.
func TestCloseWhileAnExactStreamIsMade(t *testing.T) {
	k := newFake(t, 2, Options{})
	k.programs = &fakePrograms{}
	k.programs.opened = func() error {
		k.programs.opened = nil
		requireHeld(t, k.all()[1])
		require.NoError(t, k.Close())
		require.Zero(t, k.freed.Load())
		return nil
	}
	s, err := k.Stream(StreamOptions{})
	if err == nil {
		require.Equal(t, os.ErrClosed, s.ForEach(never))
	} else {
		require.Equal(t, os.ErrClosed, err)
	}
	require.EqualValues(t, 1, k.freed.Load())
	require.Equal(t, k.programs.opens.Load(), k.programs.closes.Load(), "a barrier outlived its reader")
}

// Closing the stream, or just the reader, lets go of the barrier's provider.
func TestExactCloseLetsGoOfTheProvider(t *testing.T) {
	for name, end := range map[string]func(*fake, *Stream){
		"stream": func(_ *fake, s *Stream) { s.Close(); s.Close() },
		"reader": func(k *fake, _ *Stream) { k.Close() },
		"both":   func(k *fake, s *Stream) { k.Close(); s.Close() },
		"inside": func(k *fake, s *Stream) {
			require.Equal(k.t, os.ErrClosed, s.ForEach(func(Event) error { return k.Close() }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t, 1, Options{})
			s, b := k.stepped(1_000_000, StreamOptions{})
			k.output(0, 1, 2)
			require.NoError(t, b.Round())
			end(k, s)
			require.Equal(t, k.programs.opens.Load(), k.programs.closes.Load())
			require.ErrorIs(t, b.Round(), os.ErrClosed)
			require.Equal(t, "fake", k.Stats().Barrier.Provider, "still told")
		})
	}
}

// Only a stream that asked for barriers has them, and Stats describe the latest one.
func TestBarrierStatsAreOfTheLatestExactStream(t *testing.T) {
	k := newFake(t, 1, Options{})
	s, b := k.stepped(1_000_000, StreamOptions{})
	require.NoError(t, b.Round())
	require.EqualValues(t, 1, k.Stats().Barrier.Count)
	require.NoError(t, s.Close())
	require.NoError(t, k.slack(1).Close())
	require.EqualValues(t, 1, k.Stats().Barrier.Count)
	s, b = k.stepped(1_000_000, StreamOptions{})
	require.Zero(t, k.Stats().Barrier.Count)
	require.NoError(t, b.Round())
	require.NoError(t, s.Close())
}

// With DropLate, late samples are dropped and counted; others are not.
func TestDropLate(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.open(StreamOptions{Order: Slack(0), DropLate: true})
	k.output(0, 700, 800)
	require.Equal(t, []uint64{700, 800}, ids(t, s))
	k.output(1, 650, 750, 800, 900)
	k.output(0, 790, 850)
	require.Equal(t, []uint64{800, 850, 900}, ids(t, s))
	st := k.Stats()
	require.EqualValues(t, 3, st.Late)
	require.Equal(t, 150*time.Nanosecond, st.MaxLateness)
	require.EqualValues(t, 1, st.Rings[0].Dropped)
	require.EqualValues(t, 2, st.Rings[1].Dropped)
	for _, w := range k.w {
		require.Equal(t, w.Head(), w.Tail(), "what is dropped is consumed")
	}
	require.NoError(t, k.Close())
	k.account(t, 0, 4)
	k.account(t, 1, 4)
}

// Losses and corrupt memory are delivered though they are late.
func TestDropLateKeepsLossesAndDamage(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.open(StreamOptions{Order: Slack(0), DropLate: true})
	n := uint64(k.fill(0, 1000))
	require.Len(t, ids(t, s), int(n))
	k.output(1, 9000)
	require.Equal(t, []uint64{9000}, ids(t, s))

	k.output(0, 5500) // late, and so is the loss it reports
	k.w[0].PutHeader(ringtest.TypeSample, 4, 48)
	recs := copies(t, s)
	require.Len(t, recs, 2)
	require.Equal(t, Record{Kind: KindLost, CPU: firstCPU, Time: 5500, Lost: 1, LostAfter: 999 + n, Late: true}, recs[0])
	require.Equal(t, KindCorrupt, recs[1].Kind)
	require.False(t, recs[1].Late)
	st := k.Stats()
	require.EqualValues(t, 2, st.Late)
	require.EqualValues(t, 1, st.Rings[0].Dropped)
	require.EqualValues(t, 1, st.Rings[0].Lost)
}

// Dropping everything does not end a pass, or a wait, early.
func TestDropLateWithinAPass(t *testing.T) {
	k := newFake(t, 2, Options{})
	s := k.open(StreamOptions{Order: Slack(0), DropLate: true})
	k.output(0, 1000)
	require.Len(t, ids(t, s), 1)
	k.output(1, seq(1, 100)...)
	require.Empty(t, ids(t, s))
	require.EqualValues(t, 100, k.Stats().Rings[1].Dropped)
	require.Zero(t, k.Stats().Rings[1].Samples)
	k.output(1, 1001)
	require.Equal(t, []uint64{1001}, ids(t, s))
}

// In exact mode, an event with a time up to the watermark is late, even if none later was
// delivered: an added source may hold one. In slack mode the watermark is a guess, and events in
// order are not late.
func TestLateBelowTheWatermark(t *testing.T) {
	for _, mode := range []Order{{}, Slack(time.Millisecond)} {
		for _, drop := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, drop), func(t *testing.T) {
				a, b := twoReaders(t)
				s, barrier := a.stepped(5_000_000, StreamOptions{Order: mode, DropLate: drop})
				a.output(0, 1_000_000)
				if barrier != nil {
					require.NoError(t, barrier.Round())
				}
				require.NoError(t, s.Flush())
				require.Equal(t, []uint64{1_000_000}, ids(t, s))
				at := s.Watermark()
				require.Greater(t, at, uint64(3_000_000))
				b.output(0, 2_000_000, at-1, at, at+1, at+2)
				require.NoError(t, s.Add(b.Reader))
				a.clock.Store(10_000_000)
				if barrier != nil {
					require.NoError(t, barrier.Round())
				}
				var late, inTime []uint64
				for _, rec := range copies(t, s) {
					switch {
					case rec.Kind == KindFlushed:
					case rec.Late:
						late = append(late, rec.Time)
					default:
						inTime = append(inTime, rec.Time)
					}
				}
				below, above := []uint64{2_000_000, at - 1, at}, []uint64{at + 1, at + 2}
				st := b.Stats()
				switch {
				case mode != Order{}:
					require.Empty(t, late)
					require.Equal(t, append(below, above...), inTime)
					require.Zero(t, st.Late)
					return
				case drop:
					require.Empty(t, late)
					require.EqualValues(t, 3, st.Total().Dropped)
				default:
					require.Equal(t, below, late)
				}
				require.Equal(t, above, inTime)
				require.EqualValues(t, 3, st.Late)
				require.EqualValues(t, at+1-2_000_000, st.MaxLateness)
			})
		}
	}
}

// markerOf calls f with the next marker that src delivers.
func markerOf(t *testing.T, src *Stream, f func(marker Event)) {
	t.Helper()
	n := 0
	require.NoError(t, src.ForEach(func(ev Event) error {
		n++
		require.Equal(t, KindFlushed, ev.Kind())
		f(ev)
		return nil
	}))
	require.Equal(t, 1, n)
}

// A marker is the stream's: it stays intact while the user has it, though other streams deliver
// markers meanwhile.
func TestMarkerIsNotOverwritten(t *testing.T) {
	k := newFake(t, 2, Options{})
	first, second := k.ring(0), k.ring(1)
	require.NoError(t, first.Flush())
	markerOf(t, first, func(mine Event) {
		before := mine.Record()
		for range 2 {
			now := k.clock.Add(1000)
			require.NoError(t, second.Flush())
			require.NoError(t, first.Flush())
			markerOf(t, second, func(other Event) {
				require.Equal(t, now, other.Time())
				require.Equal(t, before, mine.Record())
			})
			require.Equal(t, before, mine.Record())
		}
	})
}
