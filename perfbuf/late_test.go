package perfbuf

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

// With DropLate, late samples are dropped and counted; others are not.
func TestDropLate(t *testing.T) {
	k := newFake(t, 2, Options{})
	s, err := k.Stream(StreamOptions{Order: Slack(0), DropLate: true})
	require.NoError(t, err)
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
	s, err := k.Stream(StreamOptions{Order: Slack(0), DropLate: true})
	require.NoError(t, err)
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
	s, err := k.Stream(StreamOptions{Order: Slack(0), DropLate: true})
	require.NoError(t, err)
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
